// SPDX-License-Identifier: Apache-2.0
// The degrees a user pinned: checked one by one, and completed into a plan.
#pragma once

#include <optional>

#include "cli/options.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/space.hpp"

namespace plansearch::cli {

[[nodiscard]] std::optional<Recompute> recompute_of(const DegreeOptions& degrees);
[[nodiscard]] std::optional<ScheduleId> schedule_of(const DegreeOptions& degrees);
[[nodiscard]] std::optional<ContextKind> context_kind_of(const DegreeOptions& degrees);
[[nodiscard]] std::optional<ZeroStage> zero_of(const DegreeOptions& degrees);
[[nodiscard]] std::optional<SequenceParallel> sequence_parallel_of(const DegreeOptions& degrees);
/// --tp or its synonym --tp-y.
[[nodiscard]] std::optional<int> tensor_out_of(const DegreeOptions& degrees);

/// Refuses values out of range and contradictions that need no network to see.
void check_degrees(const DegreeOptions& degrees);

/// Refuses a pinned degree that the network or the framework cannot have in any plan, and names
/// the values it can have.
void check_degrees_fit(const DegreeOptions& degrees, const Problem& problem);

/// The one plan the flags describe; what is absent takes its default, --dp what the GPUs leave.
/// InputError for degrees that do not multiply to the GPUs or divide the batch.
[[nodiscard]] PlanDegrees plan_from_degrees(const DegreeOptions& degrees, const Problem& problem,
                                            std::optional<int> gpus);

/// The space asked for with --space (default: framework), with the degrees given as flags pinned.
[[nodiscard]] SearchSpace build_space(const Problem& problem, const Options& options);

/// `degrees` with everything but dp pinned to what the plan has.
[[nodiscard]] DegreeOptions pinned_to(const PlanDegrees& plan, DegreeOptions degrees);

}  // namespace plansearch::cli
