// SPDX-License-Identifier: Apache-2.0
// Megatron's step times on Alpa's machine, and Alpa's own sanity check. Plans that planners find
// there are rows with questions.
#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>

#include "evidence/reproduce/gpt_question.hpp"
#include "evidence/reproduce/reproduce.hpp"
#include "evidence/validate/error_summary.hpp"
#include "evidence/validate/run_prediction.hpp"
#include "io/tables/csv.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr double kGiB = 1073741824.0;

/// A published step and what is predicted of it, by row of the table.
struct Steps {
  double published = 0.0;
  RunPrediction predicted;
  RunPrediction whole;  ///< every tensor rank sends the whole activation to the next stage
  std::optional<double> published_gib;
};
using StepTable = std::map<std::string, Steps>;

Predicted step_of(const RunPrediction& run) {
  PLANSEARCH_CHECK(run.step_time && run.tuned);
  return {run.step_time->value(), run.tuned->value()};
}

/// At a typical site.
double seconds(const RunPrediction& run) {
  return run.step_time.value().value();
}

std::vector<PredictedRun> predictions_of(const std::vector<RunRecord>& runs,
                                         const StudyContext& context, bool scatters) {
  const ShippedData& data = context.data;
  const ProfileFinder finder{[&](std::string_view name) { return data.cluster(name); },
                             [&](std::string_view name) {
                               Framework framework = data.framework(name);
                               framework.constants.boundary_scatter_gather = scatters;
                               return framework;
                             },
                             data.sites(),
                             {}};
  return predict_runs(runs, shipped_architectures(data), finder, context.threads);
}

StepTable step_table(const StudyContext& context) {
  const auto path = context.data.directory() / "validation" / "reproduce" / "alpa_runs.csv";
  const std::vector<RunRecord> runs = read_runs(io::CsvTable::read(path));
  const auto scattered = predictions_of(runs, context, true);
  const auto whole = predictions_of(runs, context, false);
  StepTable table;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& run = scattered[i].run;
    Steps& steps = table[run.id];
    steps = {run.step_time.value().value(), scattered[i].predicted, whole[i].predicted, {}};
    if (run.peak_memory) steps.published_gib = run.peak_memory->value() / kGiB;
  }
  return table;
}

/// Several plans of one network and micro-batch.
struct PlanTable {
  const char* name;
  const char* prefix;  ///< of the ids of its rows
  bool checked;        ///< larger micro-batches are reported: their data are not monotone
};
constexpr PlanTable kPlanTables[] = {
    {"1.3B, micro-batch 1", "1.3b-mb1-", true},
    {"1.3B, micro-batch 2", "1.3b-mb2-", false},
    {"1.3B, micro-batch 4", "1.3b-mb4-", false},
    {"32 layers, micro-batch 1", "32l-mb1-", true},
    {"40 layers, micro-batch 1", "40l-mb1-", true},
    {"1.3B on 64 x p3.2xlarge, micro-batch 1", "1.3b-2xlarge-", true}};
constexpr std::array kPlans{"p8t1", "p1t8", "p4t2", "p2t4"};

void add_step(const std::string& name, const Steps& steps, const RunPrediction& predicted,
              bool checked, Figures& figures) {
  figures.add(checked ? "step" : "step reported", step_of(predicted), {name}, steps.published);
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
  for (const char* plan : kPlans) {
    const Steps& step = steps.at(fmt::format("{}{}", table.prefix, plan));
    published.push_back(step.published);
    predicted.push_back(seconds(step.predicted));
    whole.push_back(seconds(step.whole));
    add_step(fmt::format("{}, {}", table.name, plan), step, step.predicted, table.checked, figures);
  }
  figures.add(table.checked ? "tau" : "tau reported", kendall_tau(published, predicted),
              {table.name, ""});
  figures.add("tau reported", kendall_tau(published, whole), {table.name, ", no scatter-gather"});
  const auto [all, right] = contrasts(published, predicted);
  if (all > 0) figures.add("contrasts", double(right), {table.name}, all);
}

void add_measured(const StepTable& steps, Figures& figures) {
  for (const PlanTable& table : kPlanTables) add_table(table, steps, figures);
  const Steps& across_nodes = steps.at("1.3b-mb1-p8t8-d1");
  ReproducedRow& row = figures.add("step with or without scatter-gather", std::nullopt,
                                   {"1.3B, micro-batch 1, p8t8-d1"}, across_nodes.published);
  row.widen(seconds(across_nodes.predicted));
  row.widen(seconds(across_nodes.whole));
  row.take_middle();
  const auto add_ratio = [&](const char* id, const Steps& a, const Steps& b,
                             const std::vector<std::string>& words) {
    figures.add(id, seconds(a.predicted) / seconds(b.predicted), words, a.published / b.published);
  };
  for (const int micro_batch : {1, 2, 4}) {
    const Steps& deep = steps.at(fmt::format("39b-mb{}-p16t4", micro_batch));
    const Steps& wide = steps.at(fmt::format("39b-mb{}-p8t8", micro_batch));
    const bool checked = micro_batch == 1;
    const std::string name = fmt::format("39B, micro-batch {}", micro_batch);
    add_step(name + ", p16t4", deep, deep.predicted, checked, figures);
    add_step(name + ", p8t8", wide, wide.predicted, checked, figures);
    add_ratio(checked ? "p8t8 over p16t4" : "p8t8 over p16t4 reported", wide, deep, {name});
  }
  add_ratio("p1t8 over p8t1", steps.at("1.3b-2xlarge-p1t8"), steps.at("1.3b-2xlarge-p8t1"), {});
}

void add_sanity_check(const StepTable& steps, const StudyContext& context, Figures& figures) {
  const Steps& step = steps.at("alpa-readme-2.6b");
  figures.add("sanity step", step_of(step.predicted), {}, step.published);
  figures.add("sanity memory", step.predicted.memory.value().value() / kGiB, {},
              step.published_gib);
  const GptSizes sizes = find_gpt("alpa-2.6B", context.data).value();
  figures.add("sanity flops", alpa_flops(sizes, 32) / step.published / 8 / 1e12);
}

}  // namespace

void add_alpa(const StudyContext& context, Figures& figures) {
  const StepTable steps = step_table(context);
  add_measured(steps, figures);
  add_sanity_check(steps, context, figures);
  add_priced(context, figures);
}

}  // namespace plansearch
