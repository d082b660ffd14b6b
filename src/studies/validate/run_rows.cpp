// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/run_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "plansearch/plan_report.hpp"
#include "report/plan_text.hpp"
#include "report/text_table.hpp"

namespace plansearch {
namespace {

/// Predicted over measured, less one.
template <typename Q>
std::optional<double> error_of(const std::optional<Q>& predicted,
                               const std::optional<Q>& measured) {
  if (!predicted || !measured) return std::nullopt;
  return *predicted / *measured - 1.0;
}

std::string error_cell(const std::optional<double>& error) {
  return error ? fmt::format("{:+.1f} %", 100.0 * *error) : "-";
}

std::string remark(const RunRecord& run, const RunPrediction& p) {
  if (p.verdict != Verdict::Feasible) return p.reason;
  if (!run.step_time || !p.p10) return {};
  const bool inside = *run.step_time >= *p.p10 && *run.step_time <= *p.p90;
  return inside ? "" : "outside p10 - p90";
}

std::string row_table(const RunReport& report, int columns) {
  TextTable table({{"id", Align::Left},
                   {"model", Align::Left},
                   {"GPUs"},
                   {"plan", Align::Left},
                   {"measured"},
                   {"predicted"},
                   {"error"},
                   {"p10 - p90"},
                   {"memory"},
                   {"predicted"},
                   {"error"},
                   {"remark", Align::Left}});
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const RunRecord& run = report.runs[i];
    const RunPrediction& p = report.predictions[i];
    table.add_row({run.id, run.model, fmt::format("{}", run.gpus),
                   p.plan ? short_plan(*p.plan) : "-", run.step_time, p.step_time,
                   error_cell(error_of(p.step_time, run.step_time)),
                   p.p10 ? range_cell(*p.p10, *p.p90) : "-", run.peak_memory,
                   run.peak_memory ? Cell(p.memory) : "-",
                   error_cell(error_of(p.memory, run.peak_memory)), remark(run, p)});
  }
  return table.text(columns);
}

/// The parts of a predicted step, the largest first.
std::string parts_text(const StepTimeBreakdown& parts) {
  std::vector<std::pair<Seconds, std::string>> shares{{parts.compute, "kernels"},
                                                      {parts.recompute, "recomputation"},
                                                      {parts.bubble, "waiting for other stages"},
                                                      {parts.optimizer, "the optimizer"},
                                                      {parts.host, "the host"},
                                                      {parts.site, "the site"}};
  for (std::size_t i = 0; i < kPurposeCount; ++i) {
    shares.emplace_back(parts.exposed[i],
                        fmt::format("exposed {} communication", to_text(static_cast<Purpose>(i))));
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> words;
  for (const auto& [time, name] : shares) {
    const double share = time / parts.total();
    if (share >= 0.01) words.push_back(fmt::format("{} {:.0f} %", name, 100.0 * share));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string worst_text(const RunReport& report) {
  std::optional<std::size_t> worst;
  double largest = 0.0;
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    if (report.runs[i].outcome != Outcome::Measured) continue;
    const auto error = error_of(report.predictions[i].step_time, report.runs[i].step_time);
    if (!error || std::abs(*error) <= largest) continue;
    largest = std::abs(*error);
    worst = i;
  }
  if (!worst) return {};
  const RunRecord& run = report.runs[*worst];
  const RunPrediction& p = report.predictions[*worst];
  const double error = *p.step_time / *run.step_time - 1.0;
  std::string text = fmt::format("\nworst: {}, predicted {:.1f} % too {} ({}; measured {})\n",
                                 run.id, 100.0 * largest, error > 0 ? "slow" : "fast",
                                 to_text(*p.step_time), to_text(*run.step_time));
  text += fmt::format("  its step as predicted: {}\n", parts_text(*p.parts));
  if (p.verdict != Verdict::Feasible) text += fmt::format("  it should not run: {}\n", p.reason);
  if (!p.regimes.empty()) {
    text += fmt::format("  hard to predict: {}\n", fmt::join(p.regimes, ", "));
  }
  if (!p.filled.empty()) {
    text += fmt::format("  assumed, as its columns do not say: {}\n", fmt::join(p.filled, ", "));
  }
  return text;
}

}  // namespace

std::string rows_text(const RunReport& report, int columns) {
  if (report.runs.size() > kFewRows) return {};
  std::string text = "\n" + row_table(report, columns) + worst_text(report);
  if (!report.unread.empty()) {
    text += fmt::format("columns that were not read: {}\n", fmt::join(report.unread, ", "));
  }
  return text;
}

}  // namespace plansearch
