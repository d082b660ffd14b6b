// SPDX-License-Identifier: Apache-2.0
// Bounds and estimates of makespans, for every schedule of the table.
//
// All functions allocate nothing once they have seen a pipeline of this size, and need a legal
// shape (obstacle_of) with arrays that fit it. Bounds cost O(virtual stages). How they relate, for
// every pipeline (asserted in tests):
//   order_bound <= PipelineSimulator::run().makespan
//   estimate_makespan is neither above nor below; see its comment for how far off it is.
#pragma once

#include "schedule/simulation/pipeline.hpp"

namespace plansearch {

/// Admissible for the schedule of the shape: what its row offers (1F1B: that device r waits for its
/// first gradient after the forwards it may run ahead; GPipe: the exact makespan), otherwise that
/// of its work as placed.
[[nodiscard]] Ticks order_bound(const PipelineShape& shape, const PipelineTimes& times);

/// Admissible for the span, the longest time from the first start to the last end of one device,
/// under *every* order: the busiest device, and one micro-batch on the first virtual stage from its
/// forward to its gradient.
[[nodiscard]] Ticks span_bound(const PipelineShape& shape, const PipelineTimes& times);

/// Close to the makespan for any stages and transfers, never below order_bound. Schedules whose row
/// offers no closed form are simulated: exact. GPipe exact; 1F1B and interleaved exact for
/// equal stages without transfers. Otherwise order_bound, raised for 1F1B by the rate of its
/// slowest loop. Seen on 1,000 random pipelines per line (2-16 stages, up to 128 micro-batches,
/// transfers up to half a forward, a quarter of them blocking): mean |error|, worst below, worst
/// above:
///   1F1B         equal stages         0.1 %   -0.0 %  +4.4 % (few micro-batches)
///   1F1B         stages +-5 %         0.1 %   -0.4 %  +4.6 %
///   1F1B         stages +-50 %        0.1 %   -2.7 %  +1.2 %
///   interleaved  equal stages         0.1 %   -2.1 %  +0.0 %
///   interleaved  chunks +-5 %         0.3 %   -3.4 %  +0.0 %
///   interleaved  chunks +-50 %        4.6 %  -22   %  +0.0 %  (simulate these)
[[nodiscard]] Ticks estimate_makespan(const PipelineShape& shape, const PipelineTimes& times);

/// Exact for GPipe, and for any order in which all forwards pass all stages before the first
/// backward does: two flow shops of equal jobs.
[[nodiscard]] Ticks flow_shop_makespan(const PipelineShape& shape, const PipelineTimes& times);

// Orders on looped places in which every device runs some forwards ahead and then alternates forward
// and backward: 1F1B and interleaved 1F1B.

/// Forwards that a device runs before its first pair of forward and backward.
[[nodiscard]] int alternating_warm_up(const PipelineShape& shape, int device);
/// As order_bound and estimate_makespan, which say how good they are.
[[nodiscard]] Ticks alternating_bound(const PipelineShape& shape, const PipelineTimes& times);
[[nodiscard]] Ticks alternating_estimate(const PipelineShape& shape, const PipelineTimes& times);

}  // namespace plansearch
