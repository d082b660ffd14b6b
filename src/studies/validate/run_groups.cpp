// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/run_groups.hpp"

#include <algorithm>
#include <iterator>

namespace plansearch {
namespace {

constexpr double kLowMfu = 0.02;
constexpr std::int64_t kSmallMicroBatchTokens = 2048;
constexpr int kDeepPipeline = 8;
constexpr int kLargeData = 64;
constexpr const char* kSweepColumns =
    "source+hw+framework+precision+model+gpus+seq_len+global_batch";

bool is_eight_bit_or_less(const ProblemRequest& question) {
  const std::string format = question.precision.value_or("");
  return format == "fp8" || format == "mxfp8" || format == "nvfp4";
}

std::size_t place_of_least(const std::vector<double>& values) {
  return static_cast<std::size_t>(std::min_element(values.begin(), values.end()) - values.begin());
}

}  // namespace

std::vector<std::string> split_columns(const std::string& columns) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= columns.size();) {
    const std::size_t end = std::min(columns.find('+', at), columns.size());
    names.push_back(columns.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

std::vector<std::string> regimes_of(const RunRecord& run, const RunCase& run_case,
                                    const Cluster& cluster) {
  const PlanDegrees& plan = run_case.plan;
  std::vector<std::string> regimes;
  const auto add_if = [&](bool holds, const char* name) {
    if (holds) regimes.emplace_back(name);
  };
  const int fast_domain = cluster.tiers.empty() ? 1 : cluster.tiers.front().size;
  const std::int64_t tokens =
      std::int64_t{1} * plan.micro_batch * run.seq_len / std::max(1, plan.context);
  add_if(plan.tensor() > fast_domain, "tensor parallel across nodes");
  add_if(tokens <= kSmallMicroBatchTokens, "micro-batch of <= 2048 tokens");
  add_if(plan.pipeline >= kDeepPipeline, "pipeline of >= 8 stages");
  add_if(plan.data >= kLargeData, "data parallel over >= 64");
  add_if(run_case.model.moe.has_value(), "mixture of experts");
  add_if(is_eight_bit_or_less(run_case.question), "fp8 and fp4");
  add_if(plan.recompute == Recompute::Full, "full recomputation");
  return regimes;
}

bool is_derived_group(std::string_view by) {
  return by == "regime" || by == "mfu" || by == "site";
}

std::string joined_cells(const RunRecord& run, const std::string& columns) {
  std::string value;
  for (const std::string& column : split_columns(columns)) {
    if (!value.empty()) value += ", ";
    value += run.cell(column);
  }
  return value;
}

std::vector<std::string> group_values(const PredictedRun& row, const std::string& by) {
  const RunPrediction& prediction = row.predicted;
  if (by == "regime") {
    return prediction.regimes.empty() ? std::vector<std::string>{std::string(kNoRegime)}
                                      : prediction.regimes;
  }
  if (by == "site") {
    return prediction.site.empty() ? std::vector<std::string>{} : std::vector{prediction.site};
  }
  if (by == "mfu") {
    const auto mfu = row.measured_mfu();
    if (!mfu) return {};
    return {*mfu < kLowMfu ? "< 2 %" : ">= 2 %"};
  }
  return {joined_cells(row.run, by)};
}

void require_columns(const io::CsvTable& table, const std::string& columns) {
  if (is_derived_group(columns)) return;
  for (const std::string& column : split_columns(columns)) table.require(column);
}

std::vector<Sweep> sweeps_of(const std::vector<PredictedRun>& runs,
                             std::span<const std::size_t> rows) {
  std::vector<std::size_t> timed;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(timed),
               [&](std::size_t row) { return runs[row].has_both_times(); });
  std::vector<Sweep> sweeps;
  for (const RowGroup& group : grouped(timed, [&](std::size_t row) {
         return std::vector{joined_cells(runs[row].run, kSweepColumns)};
       })) {
    if (group.rows.size() < 2) continue;
    std::vector<double> measured;
    std::vector<double> predicted;
    for (const std::size_t row : group.rows) {
      measured.push_back(runs[row].run.step_time->value());
      predicted.push_back(runs[row].predicted.step_time->value());
    }
    sweeps.push_back({group.rows, group.rows[place_of_least(measured)],
                      group.rows[place_of_least(predicted)], rank_sweep(measured, predicted)});
  }
  return sweeps;
}

}  // namespace plansearch
