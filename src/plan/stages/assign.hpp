// SPDX-License-Identifier: Apache-2.0
// Which devices hold which blocks, as a plan file lists it by selectors: stages of a pipeline, and
// the chunks of each.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "plan/placements/selector.hpp"
#include "plansearch/network.hpp"
#include "plansearch/plan.hpp"

namespace plansearch {

/// `width` ranks at `first` and after every `step`, up to `last`.
struct DeviceRange {
  int first = 0;
  int last = 0;
  int step = 1;
  int width = 1;
  bool operator==(const DeviceRange&) const = default;
};
/// At most this many in one plan.
inline constexpr std::int64_t kMostDevices = std::int64_t{1} << 22;
[[nodiscard]] std::int64_t device_count(const DeviceRange& range);
/// In the order of the ranges.
[[nodiscard]] std::vector<int> devices_of(const std::vector<DeviceRange>& ranges);
/// The fewest regular ranges that make up these ascending ranks.
[[nodiscard]] std::vector<DeviceRange> device_ranges(const std::vector<int>& devices);
/// "0-7", "0-28:4", "0-71:64*8"
[[nodiscard]] std::string to_text(const DeviceRange& range);

/// A selection and its devices; without a selection the devices are an idle stage.
struct AssignEntry {
  Selection what;
  std::vector<DeviceRange> devices{};
  std::optional<int> chunk{};  ///< of the stage on these devices; without it consecutive blocks
  bool operator==(const AssignEntry&) const = default;
};

/// The devices of a stage, and what each of its chunks holds.
struct AssignedStage {
  std::vector<int> devices;                      ///< ascending
  std::vector<std::vector<std::size_t>> chunks;  ///< places in `block_copies`, ascending
  std::size_t entry = 0;                         ///< the first that names these devices
};

/// Stages in the order in which entries name their devices. Every operator is assigned once.
/// `shared`: places of copies that lie on all devices (gangs.hpp); no entry means them, and they
/// come with the stage of the copy behind, the last ones with that in front. Empty: none.
[[nodiscard]] std::variant<std::vector<AssignedStage>, EntryFault> stages_of(
    const std::vector<AssignEntry>& entries, const Network& network,
    const std::vector<bool>& shared = {});

/// The entries of a plan without gangs, but for the copies that are shared.
[[nodiscard]] std::vector<AssignEntry> assign_entries(const ParallelPlan& plan,
                                                      const Network& network,
                                                      const std::vector<bool>& shared = {});

/// Content of each chunk of each position: places in `block_copies`, ascending.
[[nodiscard]] std::vector<std::vector<std::vector<std::size_t>>> places_of(
    const ParallelPlan& plan);

}  // namespace plansearch
