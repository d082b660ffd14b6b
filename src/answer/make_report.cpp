// SPDX-License-Identifier: Apache-2.0
#include "answer/make_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "evaluate/answer/interval.hpp"
#include "evaluate/answer/open_switches.hpp"
#include "evaluate/answer/site_population.hpp"
#include "evaluate/step/priced_program.hpp"
#include "io/hardware/profile_reader.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"
#include "question/gpu_count.hpp"

namespace plansearch {
namespace {

/// Without details where there is no time to simulate the plan once more.
PlanReport described(const PlanEvaluator& evaluator, const PlanCandidate& candidate) {
  const bool written = candidate.written != nullptr;
  try {
    check_stop();
    return written ? report_plan(evaluator, *candidate.written, candidate.estimate)
                   : report_plan(evaluator, candidate.plan, candidate.estimate);
  } catch (const Stopped&) {
    return written ? rate_plan(evaluator, *candidate.written, candidate.estimate)
                   : rate_plan(evaluator, candidate.plan, candidate.estimate);
  }
}

/// The plans that stand for a group first, in ranks 1 and on; their variants behind them.
std::vector<PlanReport> ranked_reports(const PlanEvaluator& evaluator,
                                       const std::vector<PlanCandidate>& ranked, std::size_t top) {
  const double sigma = evaluator.problem().framework->constants.paired_sigma;
  const auto ties_with = [&](const PlanReport& better, const PlanReport& report) {
    return probability_faster(better.estimate.step.total(), report.estimate.step.total(), sigma) <
           kTieProbability;
  };
  std::vector<PlanGroup> groups = grouped_variants(ranked, sigma, top);
  if (const SiteEffect& site = evaluator.problem().site; !site.parts.empty()) {
    std::ranges::stable_sort(groups, {}, [&](const PlanGroup& group) {
      const StepTimeBreakdown& step = group.front().estimate.step;
      return step.total() * factor_at(site, step);
    });
  }
  std::vector<PlanReport> reports;
  constexpr std::size_t kInAnyTime = 10;  // plans
  const auto is_late = [&] {
    return reports.size() >= kInAnyTime && stop_reason() != StopReason::None;
  };
  const bool quick = !is_listed(evaluator.problem());  // milliseconds a plan
  const auto add = [&](const PlanCandidate& candidate) -> PlanReport& {
    const bool in_any_time = quick && reports.size() < kInAnyTime;
    const StopScope scope(in_any_time ? nullptr : stop_token());
    PlanReport report = described(evaluator, candidate);
    report.rank = static_cast<int>(reports.size()) + 1;
    if (!reports.empty()) {
      report.ties = {ties_with(reports.back(), report), ties_with(reports.front(), report)};
    }
    return reports.emplace_back(std::move(report));
  };
  for (std::size_t g = 0; g < groups.size() && !is_late(); ++g) add(groups[g].front());
  groups.resize(reports.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t i = 1; i < groups[g].size() && !is_late(); ++i) {
      PlanReport& variant = add(groups[g][i]);
      variant.variant_of = static_cast<int>(g) + 1;
      variant.ties.with_previous = true;
      reports[g].variants.push_back(variant.plan.degrees);
    }
  }
  return reports;
}

/// Memory of plans that is as good as the same.
constexpr double kSameMemory = 0.05;

/// The front; members that tie with a faster variant and spare hardly any memory beside it are its
/// variants.
std::vector<PlanReport> front_reports(const PlanEvaluator& evaluator,
                                      const std::vector<PlanCandidate>& front) {
  const double tie = tied_ratio(evaluator.problem().framework->constants.paired_sigma);
  std::vector<PlanReport> reports;
  for (const PlanCandidate& member : front) {
    PlanReport report = described(evaluator, member);
    const auto leads = [&](const PlanReport& faster) {
      const Estimate& best = faster.estimate;
      return !member.written && faster.plan.written.empty() && !faster.variant_of &&
             plan_family(faster.plan.degrees) == plan_family(member.plan) &&
             report.estimate.step.total() < best.step.total() * tie &&
             report.estimate.memory.total() > best.memory.total() * (1.0 - kSameMemory);
    };
    const auto leader = std::ranges::find_if(reports, leads);
    if (leader != reports.end()) {
      report.variant_of = static_cast<int>(leader - reports.begin()) + 1;
      leader->variants.push_back(member.plan);
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

/// "; measure ...: p90 / p10 of plan 1 1.9 -> 1.4: ...", where that is worth a measurement.
std::string narrowing_text(const Problem& problem, const std::vector<PlanReport>& plans) {
  constexpr double kWorth = 1.2;
  if (plans.empty()) return {};
  const Narrowing found = narrowing(problem, plans.front().estimate.step);
  if (found.before < kWorth * found.after) return {};
  return fmt::format("; measure {}: p90 / p10 {:.2f} -> {:.2f}: {}", found.what, found.before,
                     found.after, found.how);
}

/// The tight plan beside the ranking, where it is not as good as tied with the first.
std::optional<PlanReport> faster_tight(const PlanEvaluator& evaluator, const SearchResult& result) {
  if (!result.tight || result.ranked.empty()) return std::nullopt;
  const double sigma = evaluator.problem().framework->constants.paired_sigma;
  const PlanCandidate& first = result.ranked.front();
  const double surely =
      probability_faster(result.tight->estimate.step.total(), first.estimate.step.total(), sigma);
  if (surely < kTieProbability) return std::nullopt;
  return described(evaluator, *result.tight);
}

void advise_padding(SearchReport& report, const PlanEvaluator& evaluator, const ParallelPlan& plan,
                    const Estimate& estimate) {
  auto text = unless_stopped(
      [&] { return padding_advice(evaluator.problem(), plan, estimate.step.total()); });
  if (text) report.advice.push_back(*std::move(text));
}

CountsReport counts_report(const SearchResult& result) {
  const SearchCounts& counts = result.counts;
  CountsReport report;
  report.space = result.space;
  report.left_out = result.left_out;
  report.total = counts.space;
  report.evaluated = counts.evaluated;
  report.simulated = counts.simulated;
  report.pruned = counts.pruned;
  report.subtrees = counts.subtrees;
  report.classes = counts.classes;
  report.unvisited = counts.unvisited;
  for (std::size_t i = 0; i < kObstacleCount; ++i) {
    if (counts.rejected[i] == 0) continue;
    report.rejected.emplace_back(to_text(static_cast<Obstacle>(i)), counts.rejected[i]);
  }
  std::ranges::stable_sort(report.rejected,
                           [](const auto& a, const auto& b) { return a.second > b.second; });
  return report;
}

std::string optimality(const ResolvedQuestion& asked, const SearchResult& result) {
  const std::string& space = result.space;
  if (is_given(asked, result)) {
    return "nothing was searched: the degrees asked for, or those of --plan, are one plan; without "
           "them the best is found, and explain shows both";
  }
  if (result.completeness == Completeness::Optimal) {
    if (!result.claim.empty()) return result.claim;
    return result.ranked.empty() ? fmt::format("no plan of space {} runs: all were checked", space)
                                 : fmt::format(
                                       "optimal within space {}: no plan of it is predicted to be "
                                       "faster by more than a tie",
                                       space);
  }
  if (result.bound > Seconds() && !result.ranked.empty()) {
    const Seconds best = result.ranked.front().estimate.step.total();
    return fmt::format(
        "stopped early: no plan of space {} is more than {:.1f} % faster than the "
        "best so far",
        space, 100.0 * (best / result.bound - 1.0));
  }
  if (result.ranked.empty()) return "stopped early: nothing was found so far";
  const double left = static_cast<double>(result.counts.unvisited) /
                      static_cast<double>(std::max<std::int64_t>(1, result.counts.space));
  if (left < 0.0005) {  // of those that were counted
    return fmt::format("stopped early: the best so far, not all of space {} searched", space);
  }
  return fmt::format("stopped early: the best so far, {:.1f} % of space {} not searched",
                     left * 100.0, space);
}

/// "; p10 - p90 are over what is not stated: recompute (none here, 94 % of runs; full 3 %, 1.29x);
/// recompute matters most: p90 / p10 1.41, 1.39 where it is stated". Empty where it hardly matters.
std::string unstated_text(const std::vector<OpenSwitch>& open, const PlanReport& plan) {
  constexpr double kRare = 0.02;   // of runs
  constexpr double kWorth = 1.01;  // of p90 over p10
  const double now = plan.p90 / plan.p10;
  if (open.empty() || now < kWorth * open.front().stated) return {};
  std::vector<std::string> switches;
  for (const OpenSwitch& found : open) {
    std::vector<std::string> values;
    for (const SwitchValue& value : found.values) {
      const std::string text = value_text(found.degree, value.value);
      const bool own = value.value == found.assumed;
      if (own)
        values.push_back(fmt::format("{} here, {:.0f} % of runs", text, 100.0 * value.share));
      if (own || value.share < kRare) continue;
      values.push_back(fmt::format("{} {:.0f} %, {:.2f}x", text, 100.0 * value.share, value.ratio));
    }
    switches.push_back(fmt::format("{} ({})", row_of(found.degree).key, fmt::join(values, "; ")));
  }
  return fmt::format(
      "; p10 - p90 are over what is not stated: {}; {} matters most: p90 / p10 {:.2f}, {:.2f} "
      "where it is stated",
      fmt::join(switches, ", "), row_of(open.front().degree).key, now, open.front().stated);
}

void widen_by_unstated(const ResolvedPlan& given, const PlanEvaluator& evaluator,
                       const SwitchPriors& priors, SearchReport& report) {
  if (!given.degrees || given.plan.order.window || !given.shared.empty()) return;
  const Problem& problem = given.problem;
  const std::vector<Degree> open = open_switches(given.asked.request.degrees, *problem.framework);
  const PlanDegrees& own = *given.degrees;
  if (open.empty() || evaluator.obstacle(own)) return;
  const EvaluationWorkspacePtr workspace = PlanEvaluator::make_workspace();
  const Estimate estimate = evaluator.simulate(*evaluator.profile(own), own, *workspace);
  const std::vector<PossiblePlan> plans =
      possible_plans(evaluator, {own, estimate}, open, {priors, year_of(priors, {})}, *workspace);
  if (plans.size() == 1) return;
  const ErrorModel errors = error_model(problem);
  const RelativeInterval interval = mixed_interval(plans, errors, problem.gpus);
  PlanReport& plan = report.plans.front();
  const Seconds step = plan.estimate.step.total();
  plan.p10 = step * interval.p10;
  plan.p90 = step * interval.p90;
  report.evidence += unstated_text(open_switches_of(plans, open, errors, problem.gpus), plan);
}

}  // namespace

std::string evidence_text(const ResolvedQuestion& asked, const QuestionReport& question) {
  return asked.evidence + (question.beyond_machine.empty() ? "" : "; " + question.beyond_machine);
}

QuestionReport question_report(const ResolvedQuestion& asked, const Problem& problem) {
  QuestionReport question;
  question.hardware = problem.cluster->name;
  question.accelerator = problem.cluster->accelerator.name;
  question.model = problem.model->name;
  question.parameters = parameter_count(*problem.network);
  question.framework = problem.framework->name;
  question.framework_validation = problem.framework->validation;
  question.precision = to_text(problem.precision);
  question.gpus = problem.gpus;
  question.beyond_machine = beyond_machine(*problem.cluster, problem.gpus);
  question.global_batch = problem.global_batch;
  question.seq_len = problem.seq_len;
  if (const auto& lora = problem.model->training.lora) {
    question.lora_rank = lora->rank;
    question.lora_targets = fmt::format("{}", fmt::join(lora->targets, ","));
  }
  question.memory_capacity = problem.cluster->accelerator.memory;
  question.memory_risk = problem.memory_risk;
  question.gpu_power_watt = problem.cluster->accelerator.power_watt;
  question.gpu_price_usd_per_hour = problem.cluster->price_usd_per_accelerator_hour;
  question.tokens = asked.tokens;
  question.site = problem.site;
  question.settings = asked.settings;
  return question;
}

SearchReport make_report(const ResolvedQuestion& asked, const PlanEvaluator& evaluator,
                         const SearchResult& result, std::size_t top, FrontShown front) {
  const LastMoment moment;
  SearchReport report;
  report.question = question_report(asked, evaluator.problem());
  report.plans = ranked_reports(evaluator, result.ranked, top);
  if (front == FrontShown::Yes) report.front = front_reports(evaluator, result.front);
  for (const NearMiss& miss : result.misses) {
    if (!evaluator.host_fits(miss.estimate)) continue;  // device memory is not the limit
    report.misses.push_back({miss.plan, miss.estimate.memory, miss.limit});
  }
  report.admitted = result.admitted;
  report.faster_tight = faster_tight(evaluator, result);
  report.counts = counts_report(result);
  if (!result.ranked.empty() && stop_reason() == StopReason::None) {
    const PlanCandidate& first = result.ranked.front();
    advise_padding(report, evaluator, whole_plan(evaluator, first), first.estimate);
  }
  report.stopped =  // the search, or the report before all plans had their details
      result.completeness == Completeness::Stopped || stop_reason() != StopReason::None;
  report.optimality = optimality(asked, result);
  report.evidence =
      evidence_text(asked, report.question) + narrowing_text(evaluator.problem(), report.plans);
  return report;
}

bool is_given(const ResolvedQuestion& asked, const SearchResult& result) {
  return !asked.request.degrees.empty() && result.counts.space == 1;
}

const Estimate& estimate_of(const Evaluation& evaluation) {
  const auto* beyond = std::get_if<InfeasiblePlan>(&evaluation);
  if (beyond == nullptr) return std::get<Estimate>(evaluation);
  if (beyond->estimate) return *beyond->estimate;
  throw InputError({},
                   fmt::format("{}: {}", to_text(beyond->reason.obstacle), beyond->reason.detail));
}

SearchReport make_prediction(const ResolvedQuestion& asked, const PlanEvaluator& evaluator,
                             const ParallelPlan& plan) {
  const Evaluation evaluation = evaluator.evaluate(plan);
  const Estimate& estimate = estimate_of(evaluation);
  SearchReport report;
  report.question = question_report(asked, evaluator.problem());
  report.plans.push_back(report_plan(evaluator, plan, estimate));
  if (std::holds_alternative<InfeasiblePlan>(evaluation)) {
    const Bytes certain = evaluator.certain_memory(plan.transform_at(0).degrees);
    report.misses.push_back(
        {PlanSummary(plan), estimate.memory, evaluator.memory_up_to(MemoryFit::Tight, certain)});
  }
  advise_padding(report, evaluator, plan, estimate);
  report.evidence =
      evidence_text(asked, report.question) + narrowing_text(evaluator.problem(), report.plans);
  return report;
}

SearchReport make_prediction(const ResolvedPlan& given) {
  return make_prediction(given.asked, PlanEvaluator(given.problem), given.plan);
}

SwitchPriors switch_priors(const ShippedData& data) {
  return io::read_switch_priors(data.directory() / "validation" / "switch_priors.yaml");
}

SearchReport predict_as_asked(const ResolvedPlan& given, const PlanEvaluator& evaluator,
                              const SwitchPriors& priors) {
  SearchReport report = make_prediction(given.asked, evaluator, given.plan);
  widen_by_unstated(given, evaluator, priors, report);
  return report;
}

SearchReport predict_as_asked(const ResolvedPlan& given, const SwitchPriors& priors) {
  return predict_as_asked(given, PlanEvaluator(given.problem), priors);
}

}  // namespace plansearch
