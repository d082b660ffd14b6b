// SPDX-License-Identifier: Apache-2.0
// One micro-batch through each group of blocks, and from group to group.
#pragma once

#include "evaluate/step/pricing_input.hpp"

namespace plansearch {

/// Fills `workspace.passes`, one per content.
void fill_passes(const PricingInput& view, EvaluationWorkspace& workspace);

/// One micro-batch through everything that one position holds. Needs `workspace.passes`.
[[nodiscard]] PhaseLengths position_lengths(const PricingInput& view,
                                            const EvaluationWorkspace& workspace, int position);

/// The same in parts.
struct GroupPass {
  PassProfile forward;
  PassProfile backward;
  PassProfile recompute;
  PassProfile weight_gradient;  ///< of orders that split the backward
  PassProfile input_gradient;   ///< the same
  Seconds joined;               ///< a forward beside a backward, where the order joins them
};
[[nodiscard]] GroupPass position_pass(const PricingInput& view, int position);

/// Fills `workspace.passes`, and from them and the boundaries between groups `workspace.durations`.
void fill_durations(const PricingInput& view, EvaluationWorkspace& workspace);

/// One message from a group of blocks to the next, or its gradient on the return.
struct BoundaryTransfer {
  Bytes bytes;  ///< of the busiest rank
  Seconds time;
  /// The bytes that receivers of parts gather among each other; its time is a part of `time`.
  Bytes gathered;
  ProcessGroup gathered_over;
  Seconds gathering;
};
struct BoundaryTransfers {
  BoundaryTransfer activation;
  BoundaryTransfer gradient;
};
/// The transfer from virtual stage `boundary` to the next, and of that one's gradients.
[[nodiscard]] BoundaryTransfers chain_transfers(const PricingInput& view, std::size_t boundary);
/// The transfer of Assignment::direct[message].
[[nodiscard]] BoundaryTransfers direct_transfers(const PricingInput& view, std::size_t message);
/// The transfer that virtual stage `boundary` + 1 waits for before its forward, `boundary` before
/// its backward: both of the above.
[[nodiscard]] BoundaryTransfers boundary_transfers(const PricingInput& view, std::size_t boundary);

}  // namespace plansearch
