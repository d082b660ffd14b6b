// SPDX-License-Identifier: Apache-2.0
// Alpa's published choices and throughput (OSDI'22) and Megatron's step times on the same machine.
// Bands: step times 30 %, bars of figures 25 %, Alpa's own sanity check 20 %.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/parallel.hpp"
#include "io/csv.hpp"
#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"
#include "search/strategies/uneven/uneven_search.hpp"
#include "studies/reproduce/gpt_question.hpp"
#include "studies/reproduce/reproduce.hpp"
#include "studies/validate/run_prediction.hpp"
#include "studies/validate/statistics.hpp"

namespace plansearch {
namespace {

/// Published and predicted step times, by row of the table.
struct Steps {
  double published = 0.0;
  double predicted = 0.0;
  double predicted_whole = 0.0;  ///< every tensor rank sends the whole activation to the next stage
  std::optional<double> published_gib;
  std::optional<double> predicted_gib;
};
using StepTable = std::map<std::string, Steps>;

std::vector<PredictedRun> predictions_of(const std::vector<RunRecord>& runs,
                                         const StudyContext& context, bool scatters) {
  const ShippedData& data = context.data;
  const ProfileFinder finder{[&](std::string_view name) { return data.cluster(name); },
                             [&](std::string_view name) {
                               Framework framework = data.framework(name);
                               framework.constants.boundary_scatter_gather = scatters;
                               return framework;
                             }};
  return predict_runs(runs, shipped_architectures(data), finder, context.threads);
}

StepTable step_table(const StudyContext& context) {
  const auto path = context.data.directory() / "validation" / "reproduce" / "alpa_runs.csv";
  const std::vector<RunRecord> runs = read_runs(io::CsvTable::read(path));
  const auto scattered = predictions_of(runs, context, true);
  const auto whole = predictions_of(runs, context, false);
  constexpr double kGiB = 1073741824.0;
  StepTable table;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& [run, predicted] = scattered[i];
    const auto& whole_step = whole[i].predicted.step_time;
    PLANSEARCH_CHECK(run.step_time && predicted.step_time && whole_step);
    Steps& steps = table[run.id];
    steps.published = run.step_time->value();
    steps.predicted = predicted.step_time->value();
    steps.predicted_whole = whole_step->value();
    if (run.peak_memory) steps.published_gib = run.peak_memory->value() / kGiB;
    if (predicted.memory) steps.predicted_gib = predicted.memory->value() / kGiB;
  }
  return table;
}

/// Several plans of one network and micro-batch.
struct PlanTable {
  const char* name;
  const char* prefix;  ///< of the ids of its rows
  std::vector<const char*> plans;
  bool checked;  ///< larger micro-batches are reported: their data are not monotone
};

const std::vector<PlanTable>& plan_tables() {
  static const std::vector<PlanTable> kTables{
      {"1.3B, micro-batch 1", "1.3b-mb1-", {"p8t1", "p1t8", "p4t2", "p2t4", "p8t8-d1"}, true},
      {"1.3B, micro-batch 2", "1.3b-mb2-", {"p8t1", "p1t8", "p4t2", "p2t4"}, false},
      {"1.3B, micro-batch 4", "1.3b-mb4-", {"p8t1", "p1t8", "p4t2", "p2t4"}, false},
      {"32 layers, micro-batch 1", "32l-mb1-", {"p8t1", "p1t8", "p4t2", "p2t4"}, true},
      {"40 layers, micro-batch 1", "40l-mb1-", {"p8t1", "p1t8", "p4t2", "p2t4"}, true},
      {"1.3B on 64 x p3.2xlarge, micro-batch 1",
       "1.3b-2xlarge-",
       {"p8t1", "p1t8", "p4t2", "p2t4"},
       true}};
  return kTables;
}

void add_step(const std::string& name, const Steps& steps, double predicted, bool checked,
              Figures& figures) {
  constexpr double kBand = 0.30;
  ReproducedRow& row = figures.add("step", predicted, {name});
  row.published = steps.published;
  if (!checked) return;
  row.low = steps.published * (1.0 - kBand);
  row.high = steps.published * (1.0 + kBand);
}

/// Pairs of which one takes at least twice as long as the other, and how many of them are predicted
/// in that order.
std::pair<int, int> contrasts(const std::vector<double>& published,
                              const std::vector<double>& predicted) {
  int all = 0;
  int right = 0;
  for (std::size_t i = 0; i < published.size(); ++i) {
    for (std::size_t j = 0; j < published.size(); ++j) {
      if (published[i] < 2.0 * published[j]) continue;
      ++all;
      right += predicted[i] > predicted[j] ? 1 : 0;
    }
  }
  return {all, right};
}

void add_table(const PlanTable& table, const StepTable& steps, Figures& figures) {
  std::vector<double> published;
  std::vector<double> predicted;
  std::vector<double> whole;
  for (const char* plan : table.plans) {
    const Steps& step = steps.at(fmt::format("{}{}", table.prefix, plan));
    published.push_back(step.published);
    predicted.push_back(step.predicted);
    whole.push_back(step.predicted_whole);
    add_step(fmt::format("{}, {}", table.name, plan), step, step.predicted, table.checked, figures);
  }
  const auto add_tau = [&](const char* setting, const std::vector<double>& values, bool checked) {
    ReproducedRow& row = figures.add("tau", kendall_tau(published, values), {table.name, setting});
    if (!checked) row.low = row.high = std::nullopt;
  };
  add_tau("", predicted, table.checked);
  add_tau(", no scatter-gather", whole, false);
  const auto [all, right] = contrasts(published, predicted);
  if (all == 0) return;
  ReproducedRow& row = figures.add("contrasts", right, {table.name});
  row.published = row.low = row.high = all;
}

void add_measured(const StepTable& steps, Figures& figures) {
  for (const PlanTable& table : plan_tables()) add_table(table, steps, figures);
  const Steps& long_pipeline = steps.at("1.3b-mb1-p8t8-d1");
  add_step("1.3B, micro-batch 1, p8t8-d1, no scatter-gather", long_pipeline,
           long_pipeline.predicted_whole, true, figures);
  for (const int micro_batch : {1, 2, 4}) {
    const Steps& deep = steps.at(fmt::format("39b-mb{}-p16t4", micro_batch));
    const Steps& wide = steps.at(fmt::format("39b-mb{}-p8t8", micro_batch));
    const bool checked = micro_batch == 1;
    const std::string name = fmt::format("39B, micro-batch {}", micro_batch);
    add_step(name + ", p16t4", deep, deep.predicted, checked, figures);
    add_step(name + ", p8t8", wide, wide.predicted, checked, figures);
    ReproducedRow& row = figures.add("p8t8 over p16t4", wide.predicted / deep.predicted, {name});
    row.published = wide.published / deep.published;
    if (!checked) row.low = std::nullopt;
  }
  const Steps& tensor = steps.at("1.3b-2xlarge-p1t8");
  const Steps& pipeline = steps.at("1.3b-2xlarge-p8t1");
  figures.add("p1t8 over p8t1", tensor.predicted / pipeline.predicted).published =
      tensor.published / pipeline.published;
}

void add_sanity_check(const StepTable& steps, Figures& figures) {
  const Steps& step = steps.at("alpa-readme-2.6b");
  const auto add = [&](const char* id, double published, std::optional<double> predicted) {
    ReproducedRow& row = figures.add(id, predicted);
    row.published = published;
    row.low = published * 0.8;
    row.high = published * 1.2;
  };
  add("sanity step", step.published, step.predicted);
  add("sanity memory", *step.published_gib, step.predicted_gib);
  figures.add("sanity flops", alpa_flops({32, 2560, 32}, 32) / step.published / 8 / 1e12);
}

/// A network of Alpa's evaluation on the number of GPUs it was run on: benchmark/alpa/
/// suite_auto_gpt.py.
struct PublishedGpt {
  const char* name;
  GptSizes sizes;
  int gpus;
};
constexpr std::array<PublishedGpt, 7> kGpts{{{"350M", {24, 1024, 16}, 1},
                                             {"760M", {24, 1536, 16}, 2},
                                             {"1.3B", {24, 2048, 32}, 4},
                                             {"2.6B", {32, 2560, 32}, 8},
                                             {"6.7B", {32, 4096, 32}, 16},
                                             {"15B", {48, 5120, 40}, 32},
                                             {"39B", {48, 8192, 64}, 64}}};

/// What the planner finds for it, in PFLOP/s by Alpa's count.
struct FoundPlan {
  double tensor = 0.0;
  double pflops = 0.0;
};

std::optional<FoundPlan> found_plan(const PublishedGpt& gpt, const PinnedDegrees& pinned,
                                    const StudyContext& context) {
  constexpr std::int64_t kBatch = 1024;
  const Problem problem = gpt_problem(
      {.sizes = gpt.sizes, .hardware = "aws-p3-16xlarge", .gpus = gpt.gpus, .batch = kBatch},
      context.data);
  const PlanEvaluator evaluator(problem);
  SearchRequest request{pinned, {}};
  request.pinned.pin(Degree::Recompute, static_cast<int>(Recompute::Full));
  request.pinned.pin(Degree::SequenceParallel, static_cast<int>(SequenceParallel::Off));
  request.pinned.pin(Degree::Context, 1);
  SearchOptions options;
  options.top = 1;
  const SearchResult result = run_search({uneven_part(request)}, evaluator, options, nullptr);
  check_stop();
  if (result.ranked.empty()) return std::nullopt;
  const PlanCandidate& best = result.ranked.front();
  FoundPlan found;
  for (const Transform& transform : best.written->transforms) {
    found.tensor = std::max(found.tensor, static_cast<double>(transform.degrees.tensor()));
  }
  found.pflops = alpa_flops(gpt.sizes, kBatch) / best.estimate.step.total().value() / 1e15;
  return found;
}

using FoundPlans = std::vector<std::optional<FoundPlan>>;

void add_planner(const FoundPlans& plans, Figures& figures) {
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const std::optional<FoundPlan>& found = plans[i];
    figures.add(fmt::format("tensor {}", kGpts.at(i).name),
                found ? std::optional(found->tensor) : std::nullopt);
    const std::string throughput = fmt::format("throughput {}", kGpts.at(i).name);
    if (!figures.has(throughput)) continue;
    figures.add(throughput, found ? std::optional(found->pflops) : std::nullopt);
  }
}

/// Figure 7a: pipelines of single devices, and one stage on all of them, against the best of all.
struct Ablation {
  const char* what;
  std::size_t index;  ///< of `kGpts`
  PinnedDegrees pinned;
};
const std::array<Ablation, 2>& ablations() {
  static const std::array<Ablation, 2> kAblations{
      {{"inter-operator only", 5, {{Degree::Data, 1}, {Degree::TensorOut, 1}}},
       {"intra-operator only", 6, {{Degree::Pipeline, 1}}}}};
  return kAblations;
}

void add_ablations(const FoundPlans& plans, const FoundPlans& ablated, Figures& figures) {
  for (std::size_t i = 0; i < ablated.size(); ++i) {
    const auto& [name, index, pinned] = ablations().at(i);
    const std::string what = name;
    const auto& all = plans.at(index);
    const auto& some = ablated[i];
    const auto share = all && some ? std::optional(some->pflops / all->pflops) : std::nullopt;
    figures.add(what, share).published =
        figures.published(what + ", PFLOP/s") /
        figures.published(fmt::format("throughput {}", kGpts.at(index).name));
  }
}

}  // namespace

void add_alpa(const StudyContext& context, Figures& figures) {
  const StepTable steps = step_table(context);
  add_measured(steps, figures);
  add_sanity_check(steps, figures);
  FoundPlans plans(kGpts.size());
  FoundPlans ablated(ablations().size());
  parallel_for(plans.size() + ablated.size(), context.threads, [&](std::size_t i) {
    if (i < ablated.size()) {  // these take longest
      const Ablation& ablation = ablations().at(i);
      ablated[i] = found_plan(kGpts.at(ablation.index), ablation.pinned, context);
    } else {
      const std::size_t gpt = i - ablated.size();
      plans[gpt] = found_plan(kGpts.at(gpt), {}, context);
    }
  });
  add_planner(plans, figures);
  add_ablations(plans, ablated, figures);
}

}  // namespace plansearch
