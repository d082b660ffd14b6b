// SPDX-License-Identifier: Apache-2.0
// Makespans without simulating: exact for equal stages, bounds and estimates for any others.
//
// All functions cost O(virtual stages), allocate nothing and need a legal shape (obstacle_of) with
// arrays that fit it. How they relate, for every pipeline (asserted in tests):
//   work_bound <= order_bound <= PipelineSimulator::run().makespan
//   estimate_makespan is neither above nor below; see its comment for how far off it is.
#pragma once

#include <optional>

#include "schedule/pipeline.hpp"

namespace plansearch {

/// Admissible for *every* order of the pieces, however clever: the latest of
///   - device r cannot start before its first input, computes all its work and is followed by what
///     its last gradient still has to pass: head_r + work_r + tail_r, for every r;
///   - one micro-batch passes all stages and all boundaries forward and backward.
[[nodiscard]] Ticks work_bound(const PipelineShape& shape, const PipelineTimes& times);

/// Admissible for the given order: work_bound and, for 1F1B, that device r waits for its first
/// gradient after the forwards it may run ahead; for GPipe the exact makespan.
[[nodiscard]] Ticks order_bound(const PipelineShape& shape, const PipelineTimes& times);

/// Close to the makespan for any stages and transfers: GPipe exact; 1F1B and interleaved exact for
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

/// Exact makespan for equal stages: `times` are those of one virtual stage and one boundary.
/// Nothing where no closed form is known: interleaved with transfers, and 1F1B with transfers
/// unless micro-batches are a multiple of the stages and a transfer is no longer than a forward.
[[nodiscard]] std::optional<Ticks> uniform_makespan(const PipelineShape& shape, UniformTimes times);

/// Idle share of every device for equal stages without transfers: (p - 1) / (v m + p - 1).
[[nodiscard]] double uniform_bubble_fraction(const PipelineShape& shape);

/// Alpa's planning objective, sum t + (m - 1) max t over device-stages with t forward + backward:
/// an upper bound of 1F1B when backward is proportional to forward, off by up to a fifth.
[[nodiscard]] Ticks alpa_objective(const PipelineShape& shape, const PipelineTimes& times);

}  // namespace plansearch
