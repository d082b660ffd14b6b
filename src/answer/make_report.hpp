// SPDX-License-Identifier: Apache-2.0
// From what the search found to what the reader is told.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plansearch/evaluator.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/report.hpp"
#include "plansearch/search.hpp"
#include "question/resolve_plan.hpp"

namespace plansearch {

/// The sources that the numbers of an answer rest on.
[[nodiscard]] std::string evidence_text(const ResolvedQuestion& asked,
                                        const QuestionReport& question);

/// The question as reports name it.
[[nodiscard]] QuestionReport question_report(const ResolvedQuestion& asked, const Problem& problem);

/// Whether an answer shows the Pareto front.
enum class FrontShown { No, Yes };

/// Ranks of the `top` best families with their variants, ties, counts and optimality; the front
/// where it is shown; remedies are added by who knows them. Never throws Stopped: where the time is
/// over, ten plans or a few more are shown.
[[nodiscard]] SearchReport make_report(const ResolvedQuestion& asked,
                                       const PlanEvaluator& evaluator, const SearchResult& result,
                                       std::size_t top, FrontShown front);

/// The price of a plan, though it may not fit. InputError where it has none. `evaluation` must
/// outlive it.
[[nodiscard]] const Estimate& estimate_of(const Evaluation& evaluation);

/// One given plan as the only entry of a report; beyond memory it is also the nearest miss.
[[nodiscard]] SearchReport make_prediction(const ResolvedQuestion& asked,
                                           const PlanEvaluator& evaluator,
                                           const ParallelPlan& plan);
[[nodiscard]] SearchReport make_prediction(const ResolvedPlan& given);

/// The vocabulary or inner width whose slices leave kernels rows of no whole vectors, what pays for
/// it, and what padding it saves. `step` is the plan's own, without its site.
[[nodiscard]] std::optional<std::string> padding_advice(const Problem& problem,
                                                        const ParallelPlan& plan, Seconds step);

/// The first of the ranked plans under orders that the framework does not run: the fastest that fit
/// and are faster than the first plan by more than a tie.
[[nodiscard]] std::vector<BeyondReport> beyond_framework(const PlanEvaluator& evaluator,
                                                         std::span<const PlanCandidate> ranked);

/// "no program is called any; plan 1 as a whole runs in: none; tp 8 in: megatron, ...": the
/// shipped frameworks that run the plan, or each of its parts.
[[nodiscard]] std::string programs_for(const Problem& problem, const PlanCandidate& first);

}  // namespace plansearch
