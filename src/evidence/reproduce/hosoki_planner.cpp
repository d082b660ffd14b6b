// SPDX-License-Identifier: Apache-2.0
// Communication timing of pipelines on GPT-2 XL (Hosoki et al., IPSJ SIG-HPC 194, 2024): an
// optimization pass over Alpa's runtime, and a planner that counts communication. Only the
// abstract of the paper is public: its machine, batch and plan are not known, so that its gain is printed as
// published and compared with nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "base/parallel.hpp"
#include "evidence/reproduce/alpa/alpa_planner.hpp"
#include "evidence/reproduce/gpt_question.hpp"
#include "evidence/reproduce/reproduce.hpp"
#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"
#include "schedule/passes/pass.hpp"
#include "search/strategies/partition/partition_planner.hpp"
#include "search/strategies/strategy.hpp"

namespace plansearch {
namespace {

constexpr const char* kHere = "this program";
/// Eight GPUs share a card of 25 Gbit/s; InfiniBand; NVLink only.
constexpr std::array kPlannerMachines{"aws-p3-16xlarge", "dgx-1-v100", "gb200-nvl72"};

/// Where messages travel as soon as they can, by the simulation of whole stages: what the
/// planner believes.
Problem with_messages_ahead(Problem problem) {
  Framework framework = *problem.framework;
  framework.pipeline_lists = PipelineLists::Ahead;
  framework.overlap[static_cast<std::size_t>(Overlap::PipelineSend)].share = 1.0;
  problem.framework = std::make_shared<const Framework>(std::move(framework));
  return problem;
}

Problem with_all_passes(Problem problem) {
  problem.passes = all_passes();
  return problem;
}

/// Alpa recomputes layers; how many micro-batches a step has is given to it: 128 for networks of
/// this size (benchmark/alpa/suite_auto_gpt.py).
SearchRequest as_alpa(std::optional<int> micro_batches = 128) {
  SearchRequest request;
  request.micro_batches = micro_batches;
  request.pinned.pin(Degree::Recompute, static_cast<int>(Recompute::Full));
  request.pinned.pin(Degree::Schedule, static_cast<int>(kDefaultSchedule));
  return request;
}

/// "29/10/9 layers on 4/2/2 GPUs".
std::string plan_text(const PlanEvaluator& evaluator, const ParallelPlan& plan) {
  const PlanSummary summary(evaluator, plan);
  std::string stages = fmt::format("pp {}, dp {}, tp {}", summary.degrees.pipeline,
                                   summary.degrees.data, summary.degrees.tensor());
  if (!summary.written.empty()) {
    stages.clear();
    for (const StageDescription& stage : summary.written) {
      stages += fmt::format("{}{}x{}", stages.empty() ? "layers x GPUs " : " ",
                            layers_of(stage, *summary.network),
                            stage.degrees.devices() / stage.degrees.pipeline);
    }
  }
  return fmt::format("{}, {} micro-batches", stages, plan.order.micro_batches);
}

/// The best of what the planner believes to be best, after the passes.
struct Planned {
  ParallelPlan plan;
  Seconds believed;
  Estimate estimate;
};

Planned planned(const Problem& problem, const SearchRequest& request,
                const std::optional<ParallelPlan>& known) {
  constexpr std::size_t kLookedAt = 4;  // and all of their families
  const PlanEvaluator passed(with_all_passes(problem));
  const PlanEvaluator believed(with_messages_ahead(problem));
  SearchOptions options;
  options.top = kLookedAt;
  SearchResult found = run_search({uneven_part(request)}, believed, options, nullptr);
  check_stop();
  if (known) {
    found.ranked.push_back({known->transform_at(0).degrees, estimate_of(believed, *known),
                            std::make_shared<const ParallelPlan>(*known)});
  }
  PLANSEARCH_CHECK(!found.ranked.empty());
  std::optional<Planned> best;
  for (const PlanCandidate& candidate : found.ranked) {
    const Estimate estimate = estimate_of(passed, *candidate.written);
    if (best && estimate.step.total() >= best->estimate.step.total()) continue;
    best = Planned{*candidate.written, candidate.estimate.step.total(), estimate};
  }
  return *best;
}

struct ThreePlans {
  std::string first_plan;
  std::string last_plan;
  Estimate lists;         ///< (i) Alpa's plan and lists
  Estimate passed;        ///< (ii) the same plan after the passes
  Estimate planned;       ///< (iii) the planner's plan after the passes
  Seconds alpa_estimate;  ///< of (i), by its planner
  Seconds own_estimate;   ///< of (iii), by this planner
  std::string free_plan;
  Estimate free;        ///< (iv) as (iii), any number of micro-batches
  Estimate free_lists;  ///< its plan before the passes
  double site = 1.0;    ///< factor of the default site: of all of them
};

ThreePlans three_plans(const std::string& hardware, const ShippedData& data) {
  constexpr int kGroups = 16;  // layers of Alpa's larger suites
  const Problem problem = gpt2_xl(hardware, data);
  const PlanEvaluator lists(problem);
  const PlanEvaluator passed(with_all_passes(problem));
  const auto alpa = alpa_plan(lists, as_alpa(), kGroups);
  PLANSEARCH_CHECK(alpa.has_value());
  ThreePlans plans;
  plans.first_plan = plan_text(lists, alpa->plan);
  plans.lists = estimate_of(lists, alpa->plan);
  plans.passed = estimate_of(passed, alpa->plan);
  plans.alpa_estimate = alpa->estimate;
  const Planned best = planned(problem, as_alpa(), alpa->plan);
  plans.planned = best.estimate;
  plans.own_estimate = best.believed;
  plans.last_plan = plan_text(passed, best.plan);
  const Planned free = planned(problem, as_alpa(std::nullopt), best.plan);
  plans.free = free.estimate;
  plans.free_lists = estimate_of(lists, free.plan);
  plans.free_plan = plan_text(passed, free.plan);
  plans.site = problem.site.factor;
  return plans;
}

/// To 1e-8: what is smaller is rounding, and differs from build to build.
double percent(double share) {
  return std::round(share * 1e10) / 1e8 + 0.0;
}

void add_planner(const std::string& hardware, const ThreePlans& plans, Figures& figures) {
  const Seconds lists = plans.lists.step.total();
  const Seconds passed = plans.passed.step.total();
  const Seconds planned = plans.planned.step.total();
  const auto row = [&](const std::string& check, const char* unit, double value,
                       std::optional<double> low, std::optional<double> high) -> ReproducedRow& {
    return figures.add({.check = fmt::format("{}: {}", hardware, check),
                        .unit = unit,
                        .predicted = value,
                        .low = low,
                        .high = high,
                        .source = std::string(kHere)});
  };
  const Seconds free = plans.free.step.total();
  const auto add_step = [&](const std::string& check, Seconds time, std::optional<Seconds> most) {
    ReproducedRow& added = row(check, "s", (time * plans.site).value(), {},
                               most ? std::optional((*most * plans.site).value()) : std::nullopt);
    added.tuned = time.value();
  };
  add_step(fmt::format("(i) Alpa's plan and lists ({})", plans.first_plan), lists, {});
  add_step("(ii) the same after the passes", passed, lists);
  add_step(fmt::format("(iii) passes, and planned on true costs ({})", plans.last_plan), planned,
           passed);
  add_step(fmt::format("(iv) as (iii), any number of micro-batches ({})", plans.free_plan), free,
           planned);
  row("gain of the passes, (i) to (ii)", "%", percent(1.0 - passed / lists), 0.0, {});
  row("gain of both, (i) to (iii)", "%", percent(1.0 - planned / lists), 0.0, {});
  row("gain of other numbers of micro-batches, (iii) to (iv)", "%", percent(1.0 - free / planned),
      0.0, {});
  row("gain of the passes on the plan of (iv)", "%",
      percent(1.0 - free / plans.free_lists.step.total()), 0.0, {});
  // Parts that the objective of (i) leaves out, and its error on the rest.
  const StepTimeBreakdown& step = plans.lists.step;
  const Seconds messages = step.exposed[static_cast<std::size_t>(Purpose::Pipeline)] +
                           step.exposed[static_cast<std::size_t>(Purpose::Data)];
  const Seconds pipeline = lists - messages - step.optimizer;
  row("error of (i)'s own estimate", "%", percent(plans.alpa_estimate / lists - 1.0), {}, {});
  row("of that: work and bubble", "%", percent((plans.alpa_estimate - pipeline) / lists), {}, {});
  row("of that: messages it leaves out", "%", percent(-(messages / lists)), {}, {});
  row("error of (iii)'s own estimate", "%", percent(plans.own_estimate / planned - 1.0), -3.0, 3.0);
}

/// The dimensions that are cut, and of which operators: "ffn (mlp_in, mlp_out)"; "nothing".
std::string cuts_text(const Network& network, const Block& block, const BlockChoice& choice) {
  std::map<std::string, std::vector<std::string>> cut;  // operators by dimension
  for (std::size_t op = 0; op < block.operators.size(); ++op) {
    for (const DimensionCut& one : *choice.operators[op]) {
      cut[network.dimension(one.dim).name].push_back(block.operators[op].name);
    }
  }
  std::vector<std::string> parts;
  for (const auto& [dimension, operators] : cut) {
    parts.push_back(fmt::format("{} ({})", dimension, fmt::join(operators, ", ")));
  }
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, "; "));
}

/// Kernels and messages of one copy of a layer.
Seconds layer_time(const ChoiceTables& tables, const BlockChoice& choice) {
  std::vector<std::size_t> options(tables.nodes().size(), 0);
  for (std::size_t n = 0; n < tables.launches().size(); ++n) {
    const FusedGroupOptions& launch = tables.launches()[n];
    const auto chosen = [&](const SequenceOption& option) {
      for (std::size_t i = 0; i < launch.operators.size(); ++i) {
        if (option.operators[i].cuts != choice.operators[launch.operators[i]]) return false;
      }
      return true;
    };
    const auto found = std::ranges::find_if(launch.options, chosen);
    options[n] = static_cast<std::size_t>(found - launch.options.begin());
  }
  return tables.sum(options, Recompute::None, Rings::Hidden);
}

/// 25 heads go over no power of two.
void add_operators(const StudyContext& context, Figures& figures) {
  for (const char* hardware : kPlannerMachines) {
    const Problem problem = gpt2_xl(hardware, context.data);
    PlanDegrees degrees;
    degrees.tensor_out = 8;
    degrees.data = 8;
    degrees.micro_batch = 4;
    degrees.micro_batches = 32;
    const PlanEvaluator evaluator(problem);
    figures.add({.check = fmt::format("{}: uniform tp 8 is refused (25 heads)", hardware),
                 .predicted = evaluator.legality(degrees) ? 1.0 : 0.0,
                 .low = 1.0,
                 .high = 1.0,
                 .source = std::string(kHere)});
    const auto& blocks = problem.network->blocks;
    const auto layer = std::ranges::find(blocks, BlockKind::Decoder, &Block::kind);
    // Time of one pass: reductions and updates of a step do not count.
    PlanDegrees endless = degrees;
    endless.micro_batches = std::numeric_limits<int>::max();
    const PartitionPlanner planner({problem, endless, PartitionSpace::OneDimension});
    const auto found = planner.best(Recompute::None, Rings::Hidden, 0.0);
    PLANSEARCH_CHECK(found.has_value());
    const auto number = static_cast<std::size_t>(layer - blocks.begin());
    const BlockChoice& choice = found->placements.blocks[number];
    BlockChoice whole = choice;
    for (auto& cuts : whole.operators) cuts->clear();
    const ChoiceTables& tables = *planner.tables(number);
    figures.add({.check = fmt::format("{}: a layer on 8 devices, split along {}, over one device",
                                      hardware, cuts_text(*problem.network, *layer, choice)),
                 .predicted = layer_time(tables, choice) / layer_time(tables, whole),
                 .high = 1.0 + 1e-9,
                 .source = std::string(kHere)});
  }
}

}  // namespace

void add_hosoki_planner(const StudyContext& context, Figures& figures) {
  figures.add("planner", std::nullopt);
  std::array<ThreePlans, kPlannerMachines.size()> plans;
  parallel_for(plans.size(), context.threads,
               [&](std::size_t i) { plans[i] = three_plans(kPlannerMachines[i], context.data); });
  for (std::size_t i = 0; i < plans.size(); ++i)
    add_planner(kPlannerMachines[i], plans[i], figures);
  add_operators(context, figures);
}

}  // namespace plansearch
