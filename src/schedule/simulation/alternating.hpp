// SPDX-License-Identifier: Apache-2.0
// Closed forms of orders on looped places in which every device runs some forwards ahead and then
// alternates forward and backward: 1F1B and interleaved 1F1B. For their rows of the table.
#pragma once

#include "schedule/simulation/pipeline.hpp"

namespace plansearch {

/// Forwards that a device runs before its first pair of forward and backward.
[[nodiscard]] int alternating_warm_up(const PipelineShape& shape, int device);
/// As order_bound and estimate_makespan (closed_form.hpp), which say how good they are.
[[nodiscard]] Ticks alternating_bound(const PipelineShape& shape, const PipelineTimes& times);
[[nodiscard]] Ticks alternating_estimate(const PipelineShape& shape, const PipelineTimes& times);

}  // namespace plansearch
