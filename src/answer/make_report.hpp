// SPDX-License-Identifier: Apache-2.0
// From what the search found to what the reader is told.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plansearch/evaluator.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/report.hpp"
#include "plansearch/search.hpp"
#include "plansearch/switch_priors.hpp"
#include "question/resolve_plan.hpp"
#include "report/comparison.hpp"

namespace plansearch {

/// The sources that the numbers of an answer rest on.
[[nodiscard]] std::string evidence_text(const ResolvedQuestion& asked,
                                        const QuestionReport& question);

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

/// Whether the degrees of the question are those of one plan, so that nothing was searched.
[[nodiscard]] bool is_given(const ResolvedQuestion& asked, const SearchResult& result);

/// One given plan as the only entry of a report; beyond memory it is also the nearest miss.
[[nodiscard]] SearchReport make_prediction(const ResolvedQuestion& asked,
                                           const PlanEvaluator& evaluator,
                                           const ParallelPlan& plan);
[[nodiscard]] SearchReport make_prediction(const ResolvedPlan& given);

/// The vocabulary or inner width whose slices leave kernels rows of no whole vectors, what pays for
/// it, and what padding it saves. `step` is the plan's own, without its site.
[[nodiscard]] std::optional<std::string> padding_advice(const Problem& problem,
                                                        const ParallelPlan& plan, Seconds step);

/// "plansearch predict --hw perlmutter ... --framework megatron+ --tp-x 4": all that the question
/// decides, and the degrees of the plan.
[[nodiscard]] std::string predict_command(ProblemRequest request, const Problem& problem,
                                          const PlanDegrees& plan);

/// How far the search for plans beyond the framework goes.
enum class Beyond : std::uint8_t {
  None,
  Nearest,  ///< plans near the first ones of the ranking; one is shown
  All,      ///< near many of them; the best of each idea is shown
};

/// Plans near the ranked ones by ideas that the framework does not run, priced as if it did
/// (usual_framework, NAME+): those that fit, keep what the question decides and beat the
/// first plan by more than a tie. Gains are over `shown`, the step of plan 1 as tables have it.
[[nodiscard]] BeyondSearch beyond_framework(const ResolvedQuestion& asked,
                                            const PlanEvaluator& evaluator,
                                            const SearchResult& result, Seconds shown,
                                            Beyond how_far);

/// "none; tp 8 in: megatron, nanotron": the shipped frameworks that run the plan as a whole and,
/// where none does, those that run each of its parts, or of those that `own` does not run.
[[nodiscard]] std::string runners_of(const Problem& problem, const PlanCandidate& first,
                                     const Framework* own);
/// "no program is called any; plan 1 as a whole runs in: none; tp 8 in: megatron, ...": the
/// shipped frameworks that run the plan, or each of its parts.
[[nodiscard]] std::string programs_for(const Problem& problem, const PlanCandidate& first);

/// The switches that laboratories ran with (validation/switch_priors.yaml). InputError for anything
/// wrong in the file.
[[nodiscard]] SwitchPriors switch_priors(const ShippedData& data);

/// The prediction of the one plan, with p10 and p90 of all plans that the question may mean. Its
/// evidence says which switches are left out and which matters most. As make_prediction where all
/// are stated, or where the plan is listed stage by stage, or operator by operator.
[[nodiscard]] SearchReport predict_as_asked(const ResolvedPlan& given,
                                            const PlanEvaluator& evaluator,
                                            const SwitchPriors& priors);
[[nodiscard]] SearchReport predict_as_asked(const ResolvedPlan& given, const SwitchPriors& priors);

/// `problem`: that of the plan. Values whose change moves neither step time nor memory are counted,
/// not listed. The largest change of the step first.
[[nodiscard]] SensitivityReport sensitivity_of(const ResolvedQuestion& asked,
                                               const Problem& problem, const ParallelPlan& plan,
                                               int threads);

}  // namespace plansearch
