// SPDX-License-Identifier: Apache-2.0
// AxoNN's GPT runs: what the search finds with its grids, beside what was published. Batches of the
// 80B run are not published: two are shown.
#include <fmt/format.h>

#include <algorithm>

#include "plansearch/search.hpp"
#include "studies/reproduce/gpt_question.hpp"
#include "studies/reproduce/grid_model.hpp"
#include "studies/reproduce/reproduce.hpp"

namespace plansearch {

void add_axonn_checks(const StudyContext& context, Figures& figures);  // in axonn_checks.cpp

namespace {

const PinnedDegrees kFull{{Degree::Recompute, static_cast<int>(Recompute::Full)}};

GptQuestion question_of(const ZooGpt& gpt, const std::string& hardware, const char* framework,
                        int gpus, std::int64_t batch) {
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
void add_headline(std::int64_t batch, const StudyContext& context, Figures& figures) {
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
  const std::string size = fmt::format("{}", batch);
  figures.add("headline grid", grid.percent, {size, grid.plan});
  figures.add("headline megatron", megatron.percent, {size, megatron.plan});
  figures.add("headline ratio", ratio(megatron.step, grid.step), {size});
  figures.add("headline whole", ratio(whole.step, grid.step), {size, whole.plan});
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

void add_least_tensor(const StudyContext& context, Figures& figures) {
  double equal = 0.0;
  for (const ZooGpt& gpt : gpt_zoo()) {
    const auto own = least_tensor(gpt, context);
    const ReproducedRow& row = figures.add(fmt::format("least tensor {}", gpt.name), own);
    equal += own == row.published ? 1.0 : 0.0;
  }
  figures.add("least tensor", equal);
}

/// Networks that grow with the machine, 16 M tokens a step.
struct WeakScaling {
  const char* model;
  int gpus;
};

void add_weak_scaling(const std::string& hardware, const std::vector<WeakScaling>& runs,
                      const StudyContext& context, Figures& figures) {
  constexpr std::int64_t kBatch = 8192;
  std::optional<double> first;
  Found own;
  for (const WeakScaling& run : runs) {
    own = found(question_of(zoo_gpt(run.model), hardware, "axonn", run.gpus, kBatch), "axonn",
                kFull, context);
    if (!first) first = own.percent;
    figures.add(fmt::format("weak {} {}", hardware, run.model), ratio(own.percent, first),
                {own.plan, fmt::format("{:.1f}", own.percent.value_or(0.0))});
  }
  figures.add("weak falls", ratio(own.percent, first), {hardware});
  figures.add("weak messages", own.small_messages, {hardware});
}

void add_weak_scaling(const StudyContext& context, Figures& figures) {
  const std::vector<WeakScaling> frontier{{"5B", 512},    {"10B", 1024}, {"20B", 2048},
                                          {"40B", 4096},  {"80B", 8192}, {"160B", 16384},
                                          {"320B", 32768}};
  add_weak_scaling("frontier", frontier, context, figures);
  add_weak_scaling("perlmutter", {{"5B", 512}, {"10B", 1024}, {"20B", 2048}, {"40B", 4096}},
                   context, figures);
  add_weak_scaling("alps", {{"10B", 1024}, {"20B", 2048}, {"40B", 4096}, {"60B", 6144}}, context,
                   figures);
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

void add_overlaps(const StudyContext& context, Figures& figures) {
  const PlanDegrees plan = fixed_grid();
  std::vector<Overlap> hidden;
  std::optional<double> before;
  const auto add = [&](const char* id) {
    const auto own = step_hiding(hidden, plan, context);
    figures.add(id, own, {spelled(plan), fmt::format("{}", kFixedBatch)}).high = before;
    before = own;
  };
  add("nothing hidden");
  hidden.push_back(Overlap::TensorParallel);
  add("all-reduces hidden");
  hidden.push_back(Overlap::GradientReduction);
  add("reduce-scatters hidden");
  hidden.push_back(Overlap::ParameterGather);
  add("all-gathers hidden");
}

/// Tensor axes and depth x data of the best grids of a small and a large batch.
void add_batch_trend(const StudyContext& context, Figures& figures) {
  const ZooGpt& gpt = zoo_gpt("20B");
  const auto tile = [&](std::int64_t batch) -> std::optional<double> {
    const PlanEvaluator evaluator(
        gpt_problem(question_of(gpt, "perlmutter", "axonn", 256, batch), context.data));
    const auto best = fastest_plan(evaluator, "axonn", kFull, context.threads);
    if (!best) return std::nullopt;
    return best->plan.tensor_in * best->plan.tensor_out;
  };
  const auto small = tile(32);
  figures.add("tile small", small);
  figures.add("tile large", tile(4096)).high = small;
}

}  // namespace

void add_axonn(const StudyContext& context, Figures& figures) {
  add_axonn_checks(context, figures);
  for (const std::int64_t batch : {1024, 2048}) add_headline(batch, context, figures);
  add_overlaps(context, figures);
  add_least_tensor(context, figures);
  add_batch_trend(context, figures);
  add_weak_scaling(context, figures);
}

}  // namespace plansearch
