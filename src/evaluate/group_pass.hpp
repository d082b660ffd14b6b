// SPDX-License-Identifier: Apache-2.0
// One micro-batch through each group of blocks, and from group to group.
#pragma once

#include "evaluate/plan_view.hpp"

namespace plansearch {

/// Bounds ask only how long passes take.
enum class PassDetail { Lengths, Everything };

/// Fills `workspace.passes`, one per content.
void fill_passes(const PlanView& view, PassDetail detail, EvaluationWorkspace& workspace);

/// Fills `workspace.durations` from the passes and the boundaries between groups.
void fill_durations(const PlanView& view, EvaluationWorkspace& workspace);

/// One message from a group of blocks to the next, or its gradient's way back.
struct BoundaryTransfer {
  Bytes bytes;  ///< of the busiest rank
  Seconds time;
};
struct BoundaryTransfers {
  BoundaryTransfer activation;
  BoundaryTransfer gradient;
};
/// Between virtual stages `boundary` and `boundary` + 1.
[[nodiscard]] BoundaryTransfers boundary_transfers(const PlanView& view, std::size_t boundary);

}  // namespace plansearch
