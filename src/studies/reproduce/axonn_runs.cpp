// SPDX-License-Identifier: Apache-2.0
// AxoNN's GPT runs: what the search finds with its grids, beside what was published. Batches of the
// 80B run are not published: two are shown.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "plansearch/search.hpp"
#include "studies/reproduce/axonn.hpp"
#include "studies/reproduce/found_plan.hpp"
#include "studies/reproduce/grid_model.hpp"

namespace plansearch {
namespace {

using Rows = std::vector<ReproducedRow>;

constexpr const char* kAbstract = "arXiv 2502.08145, abstract";
const PinnedDegrees kFull{{Degree::Recompute, static_cast<int>(Recompute::Full)}};

GptQuestion question_of(const ZooGpt& gpt, const char* hardware, const char* framework, int gpus,
                        std::int64_t batch) {
  return {.sizes = gpt.sizes,
          .hardware = hardware,
          .framework = framework,
          .precision = "bf16",
          .gpus = gpus,
          .batch = batch};
}

/// Share of the peak by the authors' FLOP count, in percent.
double percent_of_peak(const GptQuestion& question, const PlanEvaluator& evaluator, Seconds step) {
  const double rate = gpt_flops(question.sizes, question.batch) / step.value();
  return 100.0 * rate / question.gpus / evaluator.matmul_peak().value();
}

std::string spelled(const PlanDegrees& plan) {
  std::string text;
  for (const auto& [name, degree] :
       {std::pair{"x", plan.tensor_in}, std::pair{"y", plan.tensor_out},
        std::pair{"z", plan.tensor_depth}, std::pair{"data", plan.data},
        std::pair{"pp", plan.pipeline}, std::pair{"cp", plan.context},
        std::pair{"micro-batch ", plan.micro_batch}}) {
    if (degree > 1) text += fmt::format("{}{}{}", text.empty() ? "" : " ", name, degree);
  }
  return text;
}

struct Found {
  std::optional<double> step;
  std::optional<double> percent;
  std::optional<double> small_messages;
  std::string plan = "no plan";
};

/// Share of the step that nothing hides of the worst kind of message of at most 1 MB.
double worst_small_message(const PlanEvaluator& evaluator, const PlanCandidate& candidate) {
  constexpr Bytes kSmall(1e6);
  const auto workspace = PlanEvaluator::make_workspace();
  double worst = 0.0;
  for (const PricedCommunication& line :
       evaluator.communication(*evaluator.profile(candidate.plan), candidate.plan, *workspace)) {
    if (line.bytes <= kSmall) {
      worst = std::max(worst, line.exposed / candidate.estimate.step.total());
    }
  }
  return worst;
}

Found found(const GptQuestion& question, std::string_view space, const PinnedDegrees& pinned,
            const StudyContext& context) {
  const PlanEvaluator evaluator(gpt_problem(question, context.data));
  const auto best = fastest_plan(evaluator, space, pinned, context.threads);
  if (!best) return {};
  const Seconds step = best->estimate.step.total();
  return {step.value(), percent_of_peak(question, evaluator, step),
          worst_small_message(evaluator, *best), spelled(best->plan)};
}

std::optional<double> ratio(const std::optional<double>& a, const std::optional<double>& b) {
  return a && b ? std::optional(*a / *b) : std::nullopt;
}

/// The 80B network on 1,024 GPUs, and Megatron as it was run beside it.
void add_headline(std::int64_t batch, const StudyContext& context, Rows& rows) {
  const ZooGpt& gpt = zoo_gpt("80B");
  const auto question = [&](const char* framework) {
    return question_of(gpt, "perlmutter", framework, 1024, batch);
  };
  const Found grid = found(question("axonn"), "axonn", kFull, context);
  const PinnedDegrees as_run{{Degree::Recompute, static_cast<int>(Recompute::Full)},
                             {Degree::Zero, static_cast<int>(ZeroStage::None)},
                             {Degree::SequenceParallel, static_cast<int>(SequenceParallel::Off)},
                             {Degree::Context, 1},
                             {Degree::Chunks, 1}};
  const Found megatron = found(question("megatron"), "framework", as_run, context);
  const Found whole = found(question("megatron"), "framework", {}, context);
  const std::string condition = fmt::format("80B, 1024 A100 40 GB, batch {}", batch);
  rows.push_back({fmt::format("{}: best grid, {}", condition, grid.plan), "% of peak", 56.97,
                  grid.percent, 51.0, 63.0, kAbstract});
  rows.push_back({fmt::format("{}: Megatron as run, {}", condition, megatron.plan), "% of peak",
                  45.2, megatron.percent, std::nullopt, std::nullopt,
                  "arXiv 2502.08145, abstract: 26 % less throughput"});
  rows.push_back({fmt::format("{}: best grid over Megatron as run", condition), "", 1.26,
                  ratio(megatron.step, grid.step), 1.15, 1.37, kAbstract});
  rows.push_back({fmt::format("{}: best grid over all of Megatron, {}", condition, whole.plan), "",
                  std::nullopt, ratio(whole.step, grid.step), std::nullopt, std::nullopt,
                  "interleaving, sequence and context parallelism, ZeRO, any recomputation"});
}

/// Smallest power of two of tensor ranks that hold the network, one sequence each.
std::optional<double> least_tensor(const ZooGpt& gpt, const StudyContext& context) {
  constexpr int kMost = 1024;
  for (int ranks = 1; ranks <= kMost; ranks *= 2) {
    const PlanEvaluator evaluator(
        gpt_problem(question_of(gpt, "perlmutter", "axonn", ranks, ranks), context.data));
    for (const TensorGrid& grid : grids_of(ranks, ranks, ranks)) {
      PlanDegrees plan;
      plan.tensor_in = grid.in;
      plan.tensor_out = grid.out;
      plan.tensor_depth = grid.depth;
      plan.micro_batches = ranks / grid.depth;
      plan.recompute = Recompute::Full;
      const Evaluation evaluation = evaluator.evaluate(plan);
      const auto* estimate = std::get_if<Estimate>(&evaluation);
      if (estimate != nullptr && estimate->memory.total() <= evaluator.memory_limit()) {
        return static_cast<double>(ranks);
      }
    }
  }
  return std::nullopt;
}

void add_least_tensor(const StudyContext& context, Rows& rows) {
  double equal = 0.0;
  for (const ZooGpt& gpt : gpt_zoo()) {
    const auto own = least_tensor(gpt, context);
    equal += own && *own == gpt.min_tensor ? 1.0 : 0.0;
    rows.push_back({fmt::format("least tensor ranks, {}, 40 GB", gpt.name), "",
                    static_cast<double>(gpt.min_tensor), own, std::nullopt, std::nullopt,
                    "axonn-ai/Megatron-AxoNN examples/launch_per_comm_model.py"});
  }
  rows.push_back({"least tensor ranks: networks that agree", "", 12.0, equal, 10.0, 12.0, ""});
}

/// Networks that grow with the machine, 16 M tokens a step.
struct WeakScaling {
  const char* model;
  int gpus;
  std::optional<double> published;  ///< rate per device over that of the first row
  std::optional<double> band;
};

void add_weak_scaling(const char* hardware, const std::vector<WeakScaling>& runs,
                      const StudyContext& context, Rows& rows) {
  constexpr std::int64_t kBatch = 8192;
  std::optional<double> first;
  std::optional<double> last;
  std::optional<double> small;
  for (const WeakScaling& run : runs) {
    const Found own = found(question_of(zoo_gpt(run.model), hardware, "axonn", run.gpus, kBatch),
                            "axonn", kFull, context);
    if (!first) first = own.percent;
    const auto bound = [&](double sign) {
      return run.band ? std::optional(*run.published + sign * *run.band) : std::nullopt;
    };
    rows.push_back({fmt::format("{} weak scaling, {} on {}, {} ({:.1f} % of peak)", hardware,
                                run.model, run.gpus, own.plan, own.percent.value_or(0.0)),
                    "of the first", run.published, ratio(own.percent, first), bound(-1.0),
                    bound(1.0), kAbstract});
    last = own.percent;
    small = own.small_messages;
  }
  const auto all = ratio(last, first);
  rows.push_back({fmt::format("{} weak scaling falls from first to last", hardware), "",
                  std::nullopt, all, std::nullopt, 1.0, kAbstract});
  rows.push_back({fmt::format("{} weak scaling, last: worst kind of message up to 1 MB", hardware),
                  "of the step", std::nullopt, small, std::nullopt, 0.1, ""});
}

void add_weak_scaling(const StudyContext& context, Rows& rows) {
  add_weak_scaling("frontier",
                   {{"5B", 512, 1.0, {}},
                    {"10B", 1024, {}, {}},
                    {"20B", 2048, {}, {}},
                    {"40B", 4096, {}, {}},
                    {"80B", 8192, 0.883, 0.10},
                    {"160B", 16384, 0.790, {}},
                    {"320B", 32768, 0.535, 0.15}},
                   context, rows);
  add_weak_scaling(
      "perlmutter",
      {{"5B", 512, {}, {}}, {"10B", 1024, {}, {}}, {"20B", 2048, {}, {}}, {"40B", 4096, {}, {}}},
      context, rows);
  add_weak_scaling(
      "alps",
      {{"10B", 1024, {}, {}}, {"20B", 2048, {}, {}}, {"40B", 4096, {}, {}}, {"60B", 6144, {}, {}}},
      context, rows);
}

/// A grid with all four axes at work, and how messages are hidden.
PlanDegrees fixed_grid() {
  PlanDegrees plan;
  plan.tensor_out = 8;
  plan.tensor_depth = 32;
  plan.data = 4;
  plan.micro_batch = 4;
  plan.micro_batches = 2;
  plan.recompute = Recompute::Full;
  return plan;
}

constexpr std::int64_t kFixedBatch = 1024;

/// The step with only some kinds of messages hidden, as the framework hides them.
std::optional<double> step_hiding(const std::vector<Overlap>& kinds, const PlanDegrees& plan,
                                  const StudyContext& context) {
  Problem problem = gpt_problem(
      question_of(zoo_gpt("80B"), "perlmutter", "axonn", 1024, kFixedBatch), context.data);
  Framework framework = *problem.framework;
  for (std::size_t i = 0; i < kOverlapCount; ++i) {
    const bool hidden =
        std::find(kinds.begin(), kinds.end(), static_cast<Overlap>(i)) != kinds.end();
    if (!hidden) framework.overlap[i] = {};
  }
  problem.framework = std::make_shared<const Framework>(std::move(framework));
  const PlanEvaluator evaluator(std::move(problem));
  if (evaluator.legality(plan)) return std::nullopt;
  const auto workspace = PlanEvaluator::make_workspace();
  return evaluator.simulate(*evaluator.profile(plan), plan, *workspace).step.total().value();
}

void add_overlaps(const StudyContext& context, Rows& rows) {
  constexpr const char* kSource = "axonn-ai/axonn@660a224 axonn/intra_layer/communication.py";
  const PlanDegrees plan = fixed_grid();
  struct Step {
    const char* name;
    std::vector<Overlap> hidden;
  };
  const std::array<Step, 4> steps{
      {{"nothing hidden", {}},
       {"all-reduces of backward hidden", {Overlap::TensorParallel}},
       {"and reduce-scatters", {Overlap::TensorParallel, Overlap::GradientReduction}},
       {"and all-gathers",
        {Overlap::TensorParallel, Overlap::GradientReduction, Overlap::ParameterGather}}}};
  std::optional<double> before;
  for (const Step& step : steps) {
    const auto own = step_hiding(step.hidden, plan, context);
    rows.push_back({fmt::format("80B, {}, batch {}: {}", spelled(plan), kFixedBatch, step.name),
                    "s", std::nullopt, own, std::nullopt, before, kSource});
    before = own;
  }
}

/// Tensor axes and depth x data of the best grids of a small and a large batch.
void add_batch_trend(const StudyContext& context, Rows& rows) {
  const ZooGpt& gpt = zoo_gpt("20B");
  const auto tile = [&](std::int64_t batch) -> std::optional<double> {
    const PlanEvaluator evaluator(
        gpt_problem(question_of(gpt, "perlmutter", "axonn", 256, batch), context.data));
    const auto best = fastest_plan(evaluator, "axonn", kFull, context.threads);
    if (!best) return std::nullopt;
    return best->plan.tensor_in * best->plan.tensor_out;
  };
  const auto small = tile(32);
  rows.push_back({"20B on 256 GPUs: x times y, batch 32", "", std::nullopt, small, std::nullopt,
                  std::nullopt, "authors' tutorial: small batches x and y, large ones z and data"});
  rows.push_back({"20B on 256 GPUs: x times y, batch 4096", "", std::nullopt, tile(4096),
                  std::nullopt, small, "the same"});
}

}  // namespace

void add_axonn_runs(const StudyContext& context, Rows& rows) {
  for (const std::int64_t batch : {1024, 2048}) add_headline(batch, context, rows);
  add_overlaps(context, rows);
  add_least_tensor(context, rows);
  add_batch_trend(context, rows);
  add_weak_scaling(context, rows);
}

std::vector<ReproducedRow> axonn_rows(const StudyContext& context) {
  Rows rows;
  add_axonn_checks(context, rows);
  add_axonn_runs(context, rows);
  return rows;
}

}  // namespace plansearch
