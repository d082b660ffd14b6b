// SPDX-License-Identifier: Apache-2.0
#include "evidence/validate/run_prediction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/checked.hpp"
#include "base/parallel.hpp"
#include "base/ranges.hpp"
#include "base/units.hpp"
#include "evaluate/answer/open_switches.hpp"
#include "evidence/validate/site_fit.hpp"
#include "plansearch/error.hpp"
#include "question/degrees.hpp"

namespace plansearch {
namespace {

/// Memory that a published figure of this kind counts.
Bytes memory_of_kind(const DeviceMemory& device, std::optional<MemoryKind> kind,
                     const FrameworkConstants& constants, Bytes limit) {
  const Bytes held = held_by_process(device, limit);
  switch (kind.value_or(MemoryKind::Allocated)) {
    case MemoryKind::Allocated:
      return device.memory.total() - constants.memory_context;
    case MemoryKind::Reserved:
    case MemoryKind::TorchPeak:
      return held - constants.memory_context;
    case MemoryKind::NvidiaSmi:
      return held;
  }
  throw InternalError("unknown memory kind");
}

/// A value that changes the step by less does not count as another one.
constexpr double kSameStep = 0.02;

class GroupPricer {
 public:
  GroupPricer(const Problem& problem, const ArchitectureTable& table, const RunSites& sites,
              const SwitchPriors& priors)
      : evaluator_(problem),
        sites_(sites),
        priors_(priors),
        errors_(error_model(problem)),
        reporter_(table.memory_figure(problem.framework->name)),
        workspace_(PlanEvaluator::make_workspace()) {
    const double flops = model_training_flops(*problem.network).value();
    const double rate = matmul_peak(problem).value() * problem.gpus;
    peak_seconds_ = flops * static_cast<double>(problem.global_batch) / rate;
  }

  /// A broken invariant is reported with its row; the other rows are priced all the same.
  void price(PredictedRun& row, RunCase run_case) {
    const RunRecord& run = row.run;
    RunPrediction& prediction = row.predicted;
    try {
      if (run_case.open_micro_batch || !run_case.open_degrees.empty() ||
          !run_case.assumed_degrees.empty()) {
        settle_open(run_case);
        prediction.filled = run_case.filled;
        prediction.chosen_micro_batch = run_case.open_micro_batch;
        prediction.plan = run_case.plan;
        prediction.regimes = regimes_of(run, run_case, *evaluator_.problem().cluster);
      }
      price_row(run, run_case, prediction);
    } catch (const InputError& error) {  // a step beyond the times that 64 bits hold
      refuse(run_case, error.what(), prediction);
    } catch (const InternalError& error) {
      refuse(run_case, fmt::format("internal error: {}", error.what()), prediction);
    }
  }

 private:
  static void refuse(const RunCase& run_case, std::string reason, RunPrediction& prediction) {
    std::vector<std::string> regimes = std::move(prediction.regimes);
    prediction = RunPrediction{};
    prediction.filled = run_case.filled;
    prediction.regimes = std::move(regimes);
    prediction.reason = std::move(reason);
  }

  /// The plan as the row says it, in as many sizes of micro-batches as it leaves open.
  static void add_sizes(const RunCase& run_case, const PlanDegrees& asked,
                        std::vector<PlanDegrees>& plans) {
    for (int size = 1; size <= asked.micro_batches; size *= 2) {
      if (asked.micro_batches % size != 0) break;
      PlanDegrees plan = asked;
      plan.micro_batch = asked.micro_batch * size;
      plan.micro_batches = asked.micro_batches / size;
      plans.push_back(plan);
      if (!run_case.open_micro_batch) break;
    }
  }

  /// Every split of the ranks from `degree` on over the degrees that are left.
  void add_splits(const RunCase& run_case, const std::vector<Degree>& open, std::size_t degree,
                  int ranks, PinnedDegrees& pinned, std::vector<PlanDegrees>& plans) const {
    if (degree + 1 >= open.size()) {
      if (!open.empty()) pinned.pin(open.back(), ranks);
      try {
        add_sizes(run_case, plan_from_degrees(pinned, evaluator_.problem(), std::nullopt), plans);
      } catch (const InputError&) {
        return;  // no plan of this network has these degrees
      }
      return;
    }
    for (const int own : divisors(ranks)) {
      pinned.pin(open[degree], own);
      add_splits(run_case, open, degree + 1, ranks / own, pinned, plans);
    }
  }

  /// Whether how attention is split over context ranks is as open as their number.
  static bool opens_kind(const RunCase& run_case, const std::vector<Degree>& open) {
    return contains(open, Degree::Context) && !run_case.question.degrees.has(Degree::ContextKind);
  }

  /// The same plans under every other kind.
  static void add_kinds(std::vector<PlanDegrees>& plans) {
    const std::size_t given = plans.size();
    for (std::size_t p = 0; p < given; ++p) {
      PlanDegrees plan = plans[p];
      if (plan.context == 1) continue;
      for (const ContextKind kind :
           {ContextKind::Ring, ContextKind::Ulysses, ContextKind::AllGather}) {
        if (kind == plans[p].context_kind) continue;
        plan.context_kind = kind;
        plans.push_back(plan);
      }
    }
  }

  /// Takes the fastest plan that fits of those that the row may mean, else the one that needs
  /// least. Degrees that are assumed to be 1 are so where such a plan fits.
  void settle_open(RunCase& run_case) {
    std::vector<Degree> open = run_case.open_degrees;
    bool fits = settle(run_case, open, run_case.open_ranks);
    if (!fits && !run_case.assumed_degrees.empty()) {
      open = run_case.assumed_degrees;
      fits = settle(run_case, open, run_case.plan.data);
    }
    if (open.size() == 1) open.clear();  // the other degrees decide it
    if (run_case.plan.context > 1 && opens_kind(run_case, open)) {
      open.push_back(Degree::ContextKind);
    }
    if (run_case.open_micro_batch) open.push_back(Degree::MicroBatch);
    for (const Degree degree : open) {
      run_case.filled.push_back(fmt::format(
          "{} {} ({})", key_of(degree, {}), value_text(degree, degree_value(run_case.plan, degree)),
          fits ? "the fastest that fits" : "none fits, this one needs least"));
    }
  }

  /// Whether a plan fits that splits `ranks` over the open degrees; the best one is the row's.
  bool settle(RunCase& run_case, const std::vector<Degree>& open, int ranks) {
    PinnedDegrees pinned = run_case.question.degrees;
    std::vector<PlanDegrees> plans;
    add_splits(run_case, open, 0, ranks, pinned, plans);
    if (opens_kind(run_case, open)) add_kinds(plans);
    std::optional<Seconds> fastest;
    std::optional<Bytes> least;
    for (const PlanDegrees& plan : plans) {
      if (evaluator_.obstacle(plan)) continue;
      const Estimate estimate = evaluator_.simulate(*evaluator_.profile(plan), plan, *workspace_);
      const Bytes needed = estimate.memory.total();
      const bool fits = evaluator_.memory_risk(plan, needed) <= evaluator_.problem().memory_risk;
      const bool better = fits ? !fastest || estimate.step.total() < *fastest
                               : !fastest && (!least || needed < *least);
      if (!better) continue;
      if (fits) fastest = estimate.step.total();
      least = needed;
      run_case.plan = plan;
    }
    return fastest.has_value();
  }

  void price_row(const RunRecord& run, const RunCase& run_case, RunPrediction& prediction) {
    prediction.peak_seconds = peak_seconds_ * run_case.batch_share;
    const PlanDegrees& plan = run_case.plan;
    const auto illegal = evaluator_.legality(plan);
    if (illegal) {
      prediction.verdict = Verdict::Illegal;
      prediction.reason =
          illegal->detail.empty() ? std::string(to_text(illegal->obstacle)) : to_text(*illegal);
      // A plan that only the framework's rules forbid is priced: the run may use a newer framework.
      if (illegal->obstacle != Obstacle::FrameworkForbids) return;
    }
    const auto profile = evaluator_.profile(plan);
    const auto estimated = estimate_of(run_case, *profile, prediction);
    if (!estimated) return;
    const Estimate& estimate = *estimated;
    place(run, run_case, meant_plans(run, run_case, estimate, prediction), prediction);
    const MemoryRank rank = run_case.memory_rank.value_or(reporter_);
    const int stage = reported_stage(rank, plan, estimate);
    DeviceMemory reported = evaluator_.stage_memory(*profile, plan, stage, *workspace_);
    if (!run_case.stage_layers.empty() && rank == MemoryRank::Worst) {
      reported.memory = estimate.memory;
    }
    prediction.memory =
        memory_of_kind(reported, run.memory_kind, evaluator_.problem().framework->constants,
                       evaluator_.memory_limit());
    prediction.needed = run.recompute.empty() ? least_memory(plan, estimate.memory.total())
                                              : estimate.memory.total();
    prediction.memory_limit = evaluator_.memory_limit();
    prediction.memory_risk = evaluator_.memory_risk(plan, *prediction.needed);
    if (!illegal) judge(estimate, run_case, prediction);
  }

  /// Prices the plan, with its layers where the run lists them; nothing where it cannot have them.
  std::optional<Estimate> estimate_of(const RunCase& run_case, const ClassProfile& profile,
                                      RunPrediction& prediction) const {
    if (run_case.stage_layers.empty()) {
      return evaluator_.simulate(profile, run_case.plan, *workspace_);
    }
    const auto laid = with_stage_layers(evaluator_, run_case.plan, run_case.stage_layers);
    prediction.verdict = Verdict::Illegal;
    if (const auto* wrong = std::get_if<Infeasible>(&laid)) {
      prediction.reason = wrong->detail;
      return std::nullopt;
    }
    // Rules were applied to the degrees; the run may use a newer framework.
    Problem problem = evaluator_.problem();
    Framework without = *problem.framework;
    without.rules.clear();
    problem.framework = std::make_shared<const Framework>(std::move(without));
    const Evaluation evaluation = PlanEvaluator(problem).evaluate(std::get<ParallelPlan>(laid));
    if (const auto* priced = std::get_if<Estimate>(&evaluation)) return *priced;
    const auto& refused = std::get<InfeasiblePlan>(evaluation);
    if (!refused.estimate) prediction.reason = refused.reason.detail;
    return refused.estimate;  // beyond memory
  }

  /// The plan as priced, and the others that a row without some switches may mean.
  std::vector<PossiblePlan> meant_plans(const RunRecord& run, const RunCase& run_case,
                                        const Estimate& estimate, RunPrediction& prediction) {
    PinnedDegrees said = run_case.question.degrees;
    if (run_case.open_micro_batch) said.release(Degree::MicroBatch);
    const Problem& problem = evaluator_.problem();
    const std::vector<Degree> open = open_switches(said, *problem.framework);
    std::vector<PossiblePlan> plans =
        possible_plans(evaluator_, {run_case.plan, estimate}, open,
                       {priors_, year_of(priors_, run.cell("source"))}, *workspace_);
    for (const OpenSwitch& found : open_switches_of(plans, open, errors_, problem.gpus)) {
      std::vector<std::string> others;
      for (const SwitchValue& other : found.values) {
        if (std::abs(other.ratio - 1.0) < kSameStep) continue;
        others.push_back(fmt::format("{} would take {:.2f}x, {:.0f} %",
                                     value_text(found.degree, other.value), other.ratio,
                                     100.0 * other.share));
      }
      if (others.empty()) continue;
      prediction.filled.push_back(fmt::format("{} {} ({})", row_of(found.degree).key,
                                              value_text(found.degree, found.assumed),
                                              fmt::join(others, "; ")));
    }
    return plans;
  }

  [[nodiscard]] SitedTime at_site(const std::vector<PossiblePlan>& plans, const SiteEffect& site,
                                  const RunCase& run_case) const {
    ErrorModel errors = errors_;
    errors.borrowed = std::hypot(errors.borrowed, run_case.open_precision);
    errors.site = site.spread;
    errors.scatter = site.scatter;
    const RelativeInterval interval = mixed_interval(plans, errors, evaluator_.problem().gpus);
    const StepTimeBreakdown& step = plans.front().estimate.step;
    const Seconds time = step.total() * (run_case.batch_share * factor_at(site, step));
    return {time, time * interval.p10, time * interval.p90};
  }

  void place(const RunRecord& run, const RunCase& run_case, const std::vector<PossiblePlan>& plans,
             RunPrediction& prediction) const {
    const Problem& problem = evaluator_.problem();
    const RowSites sites = sites_.of(run, *problem.cluster, *problem.framework);
    const Estimate& estimate = plans.front().estimate;
    const auto at = [&](const SiteEffect& site) { return at_site(plans, site, run_case); };
    // The factor of its own site was measured with the switches that it has.
    if (sites.own) {
      prediction.at_sites[0] = at_site({plans.front()}, *sites.own, run_case);
    }
    prediction.at_sites[1] = at(sites.typical);
    prediction.at_sites[2] = at(sites.left_out);
    prediction.site = sites.name;
    prediction.tuned = estimate.step.total() * run_case.batch_share;
    const SitedTime answer = at(sites.answer);
    prediction.step_time = answer.time;
    prediction.p10 = answer.p10;
    prediction.p90 = answer.p90;
    prediction.parts = at_factor(estimate, factor_at(sites.answer, estimate.step)).step;
  }

  /// The stage whose figure the row gives.
  [[nodiscard]] static int reported_stage(MemoryRank rank, const PlanDegrees& plan,
                                          const Estimate& estimate) {
    switch (rank) {
      case MemoryRank::FirstStage:
        return 0;
      case MemoryRank::LastStage:
        return plan.pipeline - 1;
      case MemoryRank::Worst:
        return estimate.worst_memory_stage;
    }
    throw InternalError("unknown rank of a memory figure");
  }

  /// An unknown switch condemns no plan: its memory with the recompute that needs least, at most
  /// the `least` of the plan as priced.
  Bytes least_memory(PlanDegrees plan, Bytes least) {
    for (const Recompute recompute : {Recompute::Selective, Recompute::Full}) {
      plan.recompute = recompute;
      if (evaluator_.obstacle(plan)) continue;
      least = std::min(
          least, evaluator_.estimate(*evaluator_.profile(plan), plan, *workspace_).memory.total());
    }
    return least;
  }

  void judge(const Estimate& estimate, const RunCase& run_case, RunPrediction& prediction) const {
    prediction.verdict = Verdict::Feasible;
    if (run_case.batch_share != 1.0) {
      prediction.verdict = Verdict::Illegal;
      prediction.reason = "the global batch is not a multiple of dp times the micro-batch";
    } else if (!evaluator_.host_fits(estimate)) {
      prediction.verdict = Verdict::OutOfMemory;
      prediction.reason = fmt::format("what is offloaded needs {} of a host that has less",
                                      to_text(estimate.host_memory));
    } else if (*prediction.memory_risk > kTightMemoryRisk) {
      prediction.verdict = Verdict::OutOfMemory;
      prediction.reason =
          fmt::format("stage {} needs {} of {}: {:.0f} % likely to run out of memory",
                      estimate.worst_memory_stage, to_text(*prediction.needed),
                      to_text(evaluator_.memory_limit()), 100.0 * *prediction.memory_risk);
    }
  }

  PlanEvaluator evaluator_;
  const RunSites& sites_;
  const SwitchPriors& priors_;
  ErrorModel errors_;  ///< at factor 1
  MemoryRank reporter_;
  EvaluationWorkspacePtr workspace_;
  double peak_seconds_ = 0.0;
};

}  // namespace

std::string_view to_text(Verdict verdict) {
  static constexpr std::array<std::string_view, 4> kWords{"feasible", "illegal", "out of memory",
                                                          "inexpressible"};
  return kWords.at(static_cast<std::size_t>(verdict));
}

std::optional<double> RunPrediction::mfu(Seconds time) const {
  if (!peak_seconds) return std::nullopt;
  return *peak_seconds / time.value();
}

std::vector<PredictedRun> predict_runs(const std::vector<RunRecord>& runs,
                                       const ArchitectureTable& table, const ProfileFinder& finder,
                                       int threads) {
  std::vector<PredictedRun> rows;
  for (const RunRecord& run : runs) rows.push_back({run, {}});
  const std::vector<RunGroup> groups = group_by_problem(rows, table, finder);
  const RunSites sites(finder.sites, finder.site);
  parallel_for(groups.size(), threads, [&](std::size_t index) {
    const RunGroup& group = groups[index];
    GroupPricer pricer(group.settled.problem, table, sites, finder.priors);
    for (const auto& [row, asked] : group.rows) pricer.price(*row, asked);
  });
  return rows;
}

}  // namespace plansearch
