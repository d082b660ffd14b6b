// SPDX-License-Identifier: Apache-2.0
// One pipeline to be scheduled: its shape, the durations of its pieces, its legality, and the
// result of its simulation.
//
// A *virtual stage* is one model chunk on one device. Micro-batches pass the virtual stages
// 0, 1, ..., stages * chunks - 1 forward and in reverse order backward. Where they live is the
// placement of the schedule (stage_places.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plansearch/infeasible.hpp"
#include "plansearch/quantity.hpp"
#include "plansearch/schedule_id.hpp"

namespace plansearch {

/// Simulated time: whole ticks, so that every schedule is reproduced exactly on every machine. One
/// tick is a picosecond where times come from costs; studies of schedules by themselves may
/// let it be anything (a slot). 64 bits hold 106 days of picoseconds.
using Ticks = std::int64_t;

inline constexpr double kTicksPerSecond = 1e12;
/// Sums of ticks stay below this, half of what 64 bits hold.
inline constexpr double kMostTicks = 4.6e18;

/// Rounded to the nearest tick; what is longer than kMostTicks is kMostTicks, which no sum accepts.
[[nodiscard]] constexpr Ticks to_ticks(Seconds time) {
  const double ticks = time.value() * kTicksPerSecond;
  if (!(ticks < kMostTicks)) return static_cast<Ticks>(kMostTicks);
  return static_cast<Ticks>(ticks < 0 ? ticks - 0.5 : ticks + 0.5);
}

[[nodiscard]] constexpr Seconds to_seconds(Ticks ticks) {
  return Seconds(static_cast<double>(ticks) / kTicksPerSecond);
}

struct StageMapping;

enum class TransferMode : std::uint8_t {
  /// Every device sends activations and gradients on two streams of their own, each in order, one
  /// message at a time; computing goes on meanwhile.
  Asynchronous,
  /// The sender computes nothing while its message travels.
  Blocking,
};

/// Equal stages: durations of one virtual stage and of one transfer.
struct UniformTimes {
  Ticks forward = 0;
  Ticks backward = 0;  ///< full backward, or its input gradient where `weight` is given
  Ticks transfer = 0;
  Ticks weight = 0;
  /// A forward and a whole backward that run at the same time; absent: as one after the other.
  std::optional<Ticks> overlapped = std::nullopt;
  auto operator<=>(const UniformTimes&) const = default;
};

struct PipelineShape {
  ScheduleId schedule = kDefaultSchedule;
  int stages = 1;  ///< devices in a row (one representative per stage)
  int micro_batches = 1;
  int chunks = 1;    ///< virtual stages per device and replica of the network
  int forwards = 1;  ///< passes of a micro-batch through them; the last one is differentiated
  /// How many micro-batches in a row pass one chunk, where the schedule has groups. Absent: as many
  /// as stages.
  std::optional<int> group = std::nullopt;
  TransferMode transfers = TransferMode::Asynchronous;
  /// For orders that are made for the case: micro-batches that a device may keep, and the times.
  std::optional<int> memory_cap = std::nullopt;
  std::optional<UniformTimes> tuned = std::nullopt;
  const StageMapping* placement =
      nullptr;  ///< where virtual stages live; absent: as the schedule says

  /// The virtual stages of all replicas of the network.
  [[nodiscard]] int virtual_stages() const;
  /// Between virtual stages, and back.
  [[nodiscard]] int boundaries() const { return virtual_stages() - (forwards > 1 ? 0 : 1); }
  [[nodiscard]] int group_size() const { return group.value_or(stages); }
  /// As many as 1F1B keeps on its first device.
  [[nodiscard]] int cap() const { return memory_cap.value_or(stages); }
  bool operator==(const PipelineShape&) const = default;
};

/// A field of a shape that a schedule can restrict.
enum class ShapeField : std::uint8_t { Stages, Chunks, MicroBatches, Group, Forwards };

/// from, from + step, ... up to `to` where there is an end.
struct LegalValues {
  int from = 1;
  int step = 1;
  std::optional<int> to = std::nullopt;
  bool operator==(const LegalValues&) const = default;
};

/// Why a schedule cannot run in a shape: which number is wrong, and which ones are right.
struct ShapeFault {
  ShapeField field = ShapeField::Stages;
  int given = 0;
  LegalValues legal;
  bool operator==(const ShapeFault&) const = default;
};

/// The first fault, in the order of ShapeField; nothing when the shape is legal. Allocates nothing.
[[nodiscard]] std::optional<ShapeFault> fault_of(const PipelineShape& shape);
[[nodiscard]] Obstacle obstacle_kind(const ShapeFault& fault);
/// "interleaved takes a multiple of 4 micro-batches, not 6"
[[nodiscard]] std::string to_text(ScheduleId schedule, const ShapeFault& fault);
/// The same as a value to be ranked and printed.
[[nodiscard]] std::optional<Infeasible> obstacle_of(const PipelineShape& shape);

/// Durations, indexed by virtual stage; transfers by boundary (k lies between virtual stages k and
/// k + 1, so there are virtual_stages - 1 of them; nothing crosses the one between two replicas).
/// Behind the last virtual stage of a replica lies, where micro-batches pass several times, the way
/// back to its first: one boundary more.
/// Only views: the caller keeps the arrays.
struct PipelineTimes {
  std::span<const Ticks> forward;
  std::span<const Ticks> backward;         ///< input gradient; with weight gradient if not split
  std::span<const Ticks> weight_gradient;  ///< empty: contained in `backward`
  std::span<const Ticks> activation_transfer;  ///< boundary k, forward direction
  std::span<const Ticks> gradient_transfer;    ///< boundary k, backward direction
  /// The time a forward adds to the backward that runs beside it; empty: as `forward`. Together
  /// they take at least as long as each by itself.
  std::span<const Ticks> overlapped_forward;
};

/// The same with arrays of its own.
struct PipelineDurations {
  std::vector<Ticks> forward;
  std::vector<Ticks> backward;
  std::vector<Ticks> weight_gradient;
  std::vector<Ticks> activation_transfer;
  std::vector<Ticks> gradient_transfer;
  std::vector<Ticks> overlapped_forward{};

  [[nodiscard]] PipelineTimes view() const {
    return {forward,           backward,          weight_gradient, activation_transfer,
            gradient_transfer, overlapped_forward};
  }
  bool operator==(const PipelineDurations&) const = default;
};

[[nodiscard]] PipelineDurations uniform_durations(const PipelineShape& shape, UniformTimes times);

/// A shape whose order is made for the case, made for these times: exactly where stages are equal
/// and times are few ticks, rounded to 1/64 of the longest phase otherwise. All others as they are.
[[nodiscard]] PipelineShape tuned_to(const PipelineShape& shape, const PipelineTimes& times);

/// A tuned shape on the places whose order ends first, of those that its schedule may choose from.
/// All others as they are.
[[nodiscard]] PipelineShape placed_for(const PipelineShape& tuned, const PipelineTimes& times);

/// Throws SimulationLimit when all pieces and messages of a step one after the other take so many
/// ticks that sums could leave 64 bits.
void check_total(const PipelineShape& shape, const PipelineTimes& times);

/// Throws InternalError when the arrays do not fit the shape or a duration is negative, and what
/// check_total throws.
void check_times(const PipelineShape& shape, const PipelineTimes& times);

struct DeviceUse {
  Ticks first_start = 0;
  Ticks last_end = 0;          ///< includes the last blocking send
  Ticks busy = 0;              ///< computing
  Ticks exposed_transfer = 0;  ///< not computing because a message was on its way or being sent
  bool operator==(const DeviceUse&) const = default;
};

struct PipelineResult {
  Ticks makespan = 0;  ///< from the first start to the last end of all devices
  std::vector<DeviceUse> devices;
  int micro_batches_simulated = 0;  ///< the others were extrapolated (0: closed form)

  /// Idle for lack of work: neither computing nor waiting for a transfer.
  [[nodiscard]] Ticks bubble(std::size_t device) const {
    return makespan - devices[device].busy - devices[device].exposed_transfer;
  }
  /// Longest time between a device's first start and its last end.
  [[nodiscard]] Ticks span() const;
};

enum class SteadyState : std::uint8_t { Extrapolate, SimulateAll };

}  // namespace plansearch
