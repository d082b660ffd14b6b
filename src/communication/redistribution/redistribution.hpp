// SPDX-License-Identifier: Apache-2.0
// From one layout to another on the same mesh: the cheapest sequence of steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "communication/slices/layout.hpp"
#include "plansearch/communication_kind.hpp"

namespace plansearch {

/// `elements`: the full message, nccl-tests convention. All-gather: what one rank ends with;
/// reduce-scatter and all-reduce: what one rank starts with; all-to-all, permute and
/// send/receive: what one rank holds and sends.
struct RedistributionStep {
  CommunicationKind kind = CommunicationKind::Slice;
  AxisSet axes;
  int group_size = 1;
  double elements = 0.0;
  Layout result;  ///< the layout after the step
  bool operator==(const RedistributionStep&) const = default;
};

/// Whether ways are kept: those between layouts that differ only in the names of axes are one.
enum class Remember : std::uint8_t { No, Yes };

/// Buffers that one thread keeps from one search to the next.
class RedistributionScratch;
struct RedistributionScratchDeleter {
  void operator()(RedistributionScratch* scratch) const;
};
using RedistributionScratchPtr =
    std::unique_ptr<RedistributionScratch, RedistributionScratchDeleter>;
[[nodiscard]] RedistributionScratchPtr make_redistribution_scratch(
    Remember remember = Remember::No);

/// Elements one device sends with the ring or pairwise algorithm.
[[nodiscard]] double elements_moved(CommunicationKind kind, int group_size, double elements);

/// The cheapest sequence of steps: elements moved plus a small charge per step. `from` and `to`
/// hold the same tensor; `to.partial` must be a subset of `from.partial`, and neither has a flat
/// cut (see TensorPolicy for those). Empty when the layouts are equal.
[[nodiscard]] std::vector<RedistributionStep> redistribute(const DeviceMesh& mesh,
                                                           std::span<const double> extents,
                                                           const Layout& from, const Layout& to);
/// The same into `steps`, which loses what it held: no allocation once the buffers have grown.
void redistribute(const DeviceMesh& mesh, std::span<const double> extents, const Layout& from,
                  const Layout& to, RedistributionScratch& scratch,
                  std::vector<RedistributionStep>& steps);
}  // namespace plansearch
