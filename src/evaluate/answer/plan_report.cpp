// SPDX-License-Identifier: Apache-2.0
// Computes: rates and utilisation of a priced plan; share and step time of the slow mode of its
//           fabric.
// Source: model FLOPs = 3 x forward (matmul, causal attention, logits); hardware FLOPs add what
//         recompute repeats; utilisation against the dense peak of the matmul format. Slow mode:
//         several hundred runs on one fabric, some of which take a second, longer time that no
//         setting explains (docs/validation.md, "Slow mode").
// Assumes: every device carries the same share of the FLOPs; every slot of a pipeline (a
//          micro-batch on a stage) waits once per neighbouring stage, however many chunks the stage
//          has (none of the runs had several); between measured numbers of nodes the share of slow
//          runs follows their logarithm, beyond them it stays.
// Units: FLOP/s, tokens per second, shares.
// Checked by: tests/unit/evaluate/plan_report_test.cpp, slow_mode_test.cpp
#include "plansearch/plan_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "base/units.hpp"
#include "evaluate/answer/plan_details.hpp"
#include "evaluate/answer/site_population.hpp"
#include "evaluate/step/priced_program.hpp"
#include "plan/legality/legality.hpp"
#include "plan/primitives/recompute.hpp"
#include "plan/stages/expand.hpp"
#include "plan/stages/gangs.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// The blocks of a plan in their order, each with what is recomputed of it.
std::vector<RecomputedRun> recompute_of(const Network& network, const ParallelPlan& plan) {
  std::vector<RecomputedRun> runs;
  const Assignment& held = *plan.assignment;
  for (std::size_t k = 0; k < held.stop_count(); ++k) {
    const Gang* gang = held.gang_at(k);
    const std::vector<BlockRun>& blocks = gang != nullptr ? gang->blocks : held.group_at(k).blocks;
    const PlanDegrees& degrees =
        plan.transforms[static_cast<std::size_t>(held.place_at(k).transform)].degrees;
    for (const RecomputedRun& run :
         recomputed_runs(network, blocks, degrees.recompute, degrees.recompute_layers)) {
      const bool goes_on =
          !runs.empty() && runs.back().level == run.level && runs.back().run.block == run.run.block;
      if (goes_on) runs.back().run.count += run.run.count;
      if (!goes_on) runs.push_back(run);
    }
  }
  return runs;
}

std::vector<PassReport> passes_of(const ListedStep& listed) {
  std::vector<PassReport> reports;
  for (const PassOutcome& outcome : listed.passes) {
    PassReport& report = reports.emplace_back();
    report.name = outcome.pass->name;
    report.moves = outcome.pass->moves;
    report.moved = outcome.moved;
    report.kept = outcome.kept;
    report.before = to_seconds(outcome.before);
    report.after = to_seconds(outcome.after);
    if (!outcome.kept) continue;
    for (const Bytes slots : outcome.slots) report.slots = std::max(report.slots, slots);
    for (const Bytes peak : outcome.peaks) report.peak = std::max(report.peak, peak);
  }
  return reports;
}

/// "passes over its lists take 3.31 s off: group-transfers 1.52 s, late-waits 763 ms"
std::string passes_text(const std::vector<PassReport>& passes) {
  std::vector<const PassReport*> gains;
  Seconds sum;
  for (const PassReport& pass : passes) {
    if (!pass.kept || pass.after >= pass.before) continue;
    gains.push_back(&pass);
    sum += pass.before - pass.after;
  }
  if (gains.empty()) return {};
  std::stable_sort(gains.begin(), gains.end(), [](const PassReport* a, const PassReport* b) {
    return a->before - a->after > b->before - b->after;
  });
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> names;
  for (const PassReport* pass : gains) {
    if (names.size() == kNamed) break;
    names.push_back(fmt::format("{} {}", pass->name, to_text(pass->before - pass->after)));
  }
  return fmt::format("passes over its lists take {} off: {}", to_text(sum), fmt::join(names, ", "));
}

/// Also where it does not fit memory; nothing for a plan that cannot run.
std::optional<StepTimeBreakdown> step_of(const PlanEvaluator& evaluator, const ParallelPlan& plan) {
  const Evaluation priced = evaluator.evaluate(plan);
  if (const auto* estimate = std::get_if<Estimate>(&priced)) return estimate->step;
  const auto& too_large = std::get<InfeasiblePlan>(priced).estimate;
  return too_large ? std::optional(too_large->step) : std::nullopt;
}

/// Micro-batches in pieces against the same in one, or the reverse, where messages of tensor groups
/// are there to be hidden and the framework runs both.
std::optional<std::string> pieces_text(const PlanEvaluator& evaluator, const ParallelPlan& plan,
                                       const StepTimeBreakdown& step) {
  const PlanDegrees& first = plan.transform_at(0).degrees;
  if (plan.transforms.size() > 1 || first.tensor() == 1) return std::nullopt;
  ParallelPlan other = plan;
  int& pieces = other.transforms.front().degrees.pieces;
  pieces = first.pieces > 1 ? 1 : 2;
  const auto priced = step_of(evaluator, other);
  if (!priced) return std::nullopt;
  const std::string name =
      pieces == 1 ? "with micro-batches in one piece" : "with micro-batches in 2 pieces";
  return against_text(step, *priced, name, "in pieces");
}

ParallelPlan expanded(const PlanEvaluator& evaluator, const PlanDegrees& degrees) {
  auto plan = evaluator.expand(degrees);
  PLANSEARCH_CHECK(std::holds_alternative<ParallelPlan>(plan));
  return std::get<ParallelPlan>(std::move(plan));
}

}  // namespace

PlanSummary::PlanSummary(const ParallelPlan& priced) : degrees(priced.transform_at(0).degrees) {
  const auto& positions = priced.assignment->positions;
  if (std::all_of(positions.begin(), positions.end(), [&](const DevicePosition& position) {
        return position.transform == positions.front().transform;
      })) {
    return;
  }
  for (int p = 0; p < priced.assignment->stages(); ++p) {
    stages.push_back(priced.transform_at(p).degrees);
  }
}

PlanSummary::PlanSummary(const PlanEvaluator& evaluator, const ParallelPlan& priced)
    : PlanSummary(priced) {
  const Problem& problem = evaluator.problem();
  plan = std::make_shared<const ParallelPlan>(priced);
  network = problem.network;
  const Assignment& held = *priced.assignment;
  for (const Gang& gang : held.gangs) {
    for (const BlockRun& run : gang.blocks) {
      const std::string name = plain_block_name(network->blocks[run.block].name);
      if (std::find(shared.begin(), shared.end(), name) == shared.end()) shared.push_back(name);
    }
  }
  if (priced.order.window) window = rule_texts(priced, *network);
  const bool placed = priced.transforms.front().is_placed();
  if (placed) placements = names_of(*priced.transforms.front().placements, *network);
  ParallelPlan by_role = without_gangs(priced, *network);
  by_role.order = {by_role.order.schedule, by_role.order.micro_batches};
  if (placed) by_role = without_placements(std::move(by_role), *problem.framework);
  const auto uniform =
      placed ? expand(degrees, *problem.network, *problem.framework) : evaluator.expand(degrees);
  const auto* same = std::get_if<ParallelPlan>(&uniform);
  if (same != nullptr && *same == by_role) return;
  written = stages_of(by_role, *problem.framework);
  for (std::size_t s = 0; s < written.size(); ++s) {
    written[s].first_rank = by_role.assignment->positions[s].first;
  }
}

int PlanSummary::devices() const {
  if (stages.empty()) return degrees.devices();
  int sum = 0;
  for (const PlanDegrees& stage : stages) sum += stage.devices() / stage.pipeline;
  return sum;
}

FlopRate matmul_peak(const Problem& problem) {
  const PrecisionPolicy& formats = problem.framework->precision.at(problem.precision);
  return problem.cluster->accelerator.peak[static_cast<std::size_t>(formats.matmul)].value();
}

PlanReport rate_plan(const PlanEvaluator& evaluator, const PlanDegrees& plan,
                     const Estimate& estimate) {
  return rate_plan(evaluator, expanded(evaluator, plan), estimate);
}

PlanReport rate_plan(const PlanEvaluator& evaluator, const ParallelPlan& plan,
                     const Estimate& estimate) {
  const Problem& problem = evaluator.problem();
  PlanReport report;
  report.plan = PlanSummary(evaluator, plan);
  report.estimate = at_factor(estimate, factor_at(problem.site, estimate.step));
  const Seconds step = report.estimate.step.total();
  report.p10 = step * estimate.relative_p10;
  report.p90 = step * estimate.relative_p90;
  report.slow = slow_runs(*problem.cluster, report.plan.degrees, plan.devices());
  const auto sequences = static_cast<double>(report.plan.degrees.global_batch());
  report.tokens_per_s = sequences * static_cast<double>(problem.seq_len) / step.value();

  const Flops forward = model_forward_flops(*problem.network) * sequences;
  const Seconds gpu_time = step * static_cast<double>(plan.devices());
  const Flops model = model_training_flops(*problem.network) * sequences;
  report.model_rate_per_gpu = model / gpu_time;
  const double repeated =
      repeated_flops_share(*problem.network, recompute_of(*problem.network, plan),
                           selective_of(*problem.framework, report.plan.degrees),
                           plan.transforms.front().placements.get());
  report.hardware_rate_per_gpu = (model + forward * repeated) / gpu_time;
  const FlopRate peak = matmul_peak(problem);
  const Framework& framework = *problem.framework;
  for (const FrameworkFeature* feature :
       features_of(report.plan.degrees, *problem.network, framework, problem.precision)) {
    report.features.push_back({feature->name, feature->plans});
  }
  report.mfu = report.model_rate_per_gpu / peak;
  report.hfu = report.hardware_rate_per_gpu / peak;
  const Bytes peak_memory = estimate.memory.total();
  report.memory_risk = evaluator.memory_risk(report.plan.degrees, peak_memory);
  report.memory_fit = evaluator.host_fits(estimate)
                          ? evaluator.memory_fit(report.plan.degrees, peak_memory)
                          : MemoryFit::No;
  return report;
}

namespace {

/// `degrees`: of a plan that is no more than these; else null.
PlanReport report_plan(const PlanEvaluator& evaluator, const ParallelPlan& plan,
                       const PlanDegrees* degrees, const Estimate& estimate) {
  PlanReport report = rate_plan(evaluator, plan, estimate);
  PlanDetails details;
  const auto workspace = PlanEvaluator::make_workspace();
  const PlanViews& views = evaluator.views();
  views.with_view(plan, [&](const PricingInput& view) {
    const auto listed = degrees == nullptr ? listed_step(view, *workspace)
                                           : views.listed(*degrees, view, *workspace);
    details = details_of(*views.profiles, view, listed.get(), *workspace);
    if (listed) report.passes = passes_of(*listed);
  });
  report.communication = std::move(details.communication);
  report.stages = std::move(details.stages);
  report.operators = std::move(details.operators);
  report.hidden = std::move(details.hidden);
  report.peak = std::move(details.peak);
  report.order = std::move(details.order);
  report.why = explain(evaluator, report.plan.degrees, report.estimate);
  std::string steps = steps_text(report.communication, report.plan.degrees.tensor_out);
  if (!steps.empty()) {
    report.why.push_back(std::move(steps));
    const Framework& framework = *evaluator.problem().framework;
    if (const auto space = step_of(evaluator, without_placements(plan, framework))) {
      report.why.push_back(against_text(report.estimate.step, *space,
                                        "the same degrees cut in space alone", "in steps"));
    }
  }
  if (auto pieces = pieces_text(evaluator, plan, report.estimate.step)) {
    report.why.push_back(*std::move(pieces));
  }
  std::string passes = passes_text(report.passes);
  if (!passes.empty()) report.why.push_back(std::move(passes));
  return report;
}

}  // namespace

PlanReport report_plan(const PlanEvaluator& evaluator, const PlanDegrees& plan,
                       const Estimate& estimate) {
  return report_plan(evaluator, expanded(evaluator, plan), &plan, estimate);
}

PlanReport report_plan(const PlanEvaluator& evaluator, const ParallelPlan& plan,
                       const Estimate& estimate) {
  return report_plan(evaluator, plan, nullptr, estimate);
}

namespace {

double share_on(const SlowMode& mode, double nodes) {
  const auto above = std::find_if(mode.shares.begin(), mode.shares.end(),
                                  [&](const SlowShare& s) { return s.nodes >= nodes; });
  if (above == mode.shares.end()) return mode.shares.back().share;
  if (above == mode.shares.begin()) return above->share;
  const SlowShare& below = *(above - 1);
  const double part = std::log(nodes / below.nodes) / std::log(above->nodes / below.nodes);
  return below.share + part * (above->share - below.share);
}

}  // namespace

std::optional<SlowRuns> slow_runs(const Cluster& cluster, const PlanDegrees& plan, int devices) {
  if (plan.pipeline == 1) return std::nullopt;
  for (const LinkTier& tier : cluster.tiers) {
    const auto* fabric = std::get_if<FabricCurve>(&tier.curve);
    if (fabric == nullptr || !fabric->slow_mode) continue;
    const SlowMode& mode = *fabric->slow_mode;
    const double nodes = static_cast<double>(devices) / cluster.accelerators_per_node;
    const double slots = static_cast<double>(plan.micro_batches) + plan.pipeline - 1;
    const double neighbours = std::min(2, plan.pipeline - 1);
    return SlowRuns{fabric->name, share_on(mode, nodes), mode.excess * (slots * neighbours)};
  }
  return std::nullopt;
}

PlanDetails plan_details(const PlanEvaluator& evaluator, const ParallelPlan& plan) {
  const auto workspace = PlanEvaluator::make_workspace();
  return evaluator.views().with_view(plan, [&](const PricingInput& view) {
    const auto listed = listed_step(view, *workspace);
    return details_of(*evaluator.views().profiles, view, listed.get(), *workspace);
  });
}

PlanDetails plan_details(const PlanEvaluator& evaluator, const PlanDegrees& plan,
                         EvaluationWorkspace& workspace) {
  const auto profile = evaluator.profile(plan);
  return evaluator.views().with_view(*profile, plan, workspace, [&](const PricingInput& view) {
    const auto listed = evaluator.views().listed(plan, view, workspace);
    return details_of(*evaluator.views().profiles, view, listed.get(), workspace);
  });
}

}  // namespace plansearch
