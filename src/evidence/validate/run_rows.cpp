// SPDX-License-Identifier: Apache-2.0
// The rows of a table of runs: predicted beside measured, in files and in a table of few.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/units.hpp"
#include "evidence/validate/run_summary.hpp"
#include "report/columns.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;
using Row = const PredictedRun&;

/// Views of `at_sites`: the row's own site, a typical one, and a typical one of other laboratories.
constexpr std::array<std::string_view, 3> kSiteViews{"own_site", "typical", "left_out"};

Json parts_json(const std::optional<StepTimeBreakdown>& parts) {
  if (!parts) return nullptr;
  Json json{{"compute", parts->compute.value()},
            {"recompute", parts->recompute.value()},
            {"exposed_communication", parts->exposed_total().value()},
            {"bubble", parts->bubble.value()},
            {"optimizer", parts->optimizer.value()},
            {"host", parts->host.value()},
            {"site", parts->site.value()}};
  for (std::size_t i = 0; i < kPurposeCount; ++i) {
    const auto purpose = static_cast<Purpose>(i);
    json[fmt::format("exposed_{}", to_text(purpose))] = parts->exposed[i].value();
  }
  return json;
}

Json at_sites_json(const RunPrediction& prediction) {
  Json json = Json::object();
  for (std::size_t view = 0; view < kSiteViews.size(); ++view) {
    const auto& at = prediction.at_sites[view];
    json[std::string(kSiteViews[view])] = at ? Json{{"step_time_s", at->time.value()},
                                                    {"p10_s", at->p10.value()},
                                                    {"p90_s", at->p90.value()}}
                                             : Json(nullptr);
  }
  return json;
}

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

std::string remark(Row row) {
  const auto& [run, p] = row;
  if (p.verdict != Verdict::Feasible) return p.reason;
  if (!run.step_time || !p.p10) return {};
  const bool inside = *run.step_time >= *p.p10 && *run.step_time <= *p.p90;
  return inside ? "" : "outside p10 - p90";
}

bool is_expressible(Row row) {
  return row.predicted.verdict != Verdict::Inexpressible;
}

Json feasible(Row row) {
  return is_expressible(row) ? Json(row.predicted.verdict == Verdict::Feasible) : Json(nullptr);
}
std::optional<int> micro_batch(Row row) {
  return row.predicted.plan ? std::optional(row.predicted.plan->micro_batch) : std::nullopt;
}

/// Keys of files, titles of the table of few rows.
Columns<PredictedRun> columns_of(const std::set<std::string>& suspects) {
  return {
      {"id", [](Row r) { return r.run.id; }, {"id", Align::Left}},
      {"source", [](Row r) { return or_null(r.run.cell("source")); }},
      {"site", [](Row r) { return or_null(r.predicted.site); }},
      {"hw", [](Row r) { return r.run.hardware; }},
      {"framework", [](Row r) { return r.run.framework; }},
      {"", [](Row r) { return r.run.model; }, {"model", Align::Left}},
      {"", [](Row r) { return r.run.gpus; }, {"GPUs"}},
      {"",
       [](Row r) { return r.predicted.plan ? short_plan(*r.predicted.plan) : "-"; },
       {"plan", Align::Left}},
      {"measured_step_time_s", [](Row r) { return r.run.step_time; }, {"measured"}},
      {"predicted_step_time_s", [](Row r) { return r.predicted.step_time; }, {"predicted"}},
      {"",
       [](Row r) { return error_of(r.predicted.step_time, r.run.step_time); },
       {"error"},
       error_cell},
      {"predicted_p10_s", [](Row r) { return r.predicted.p10; }},
      {"predicted_p90_s",
       [](Row r) { return r.predicted.p90; },
       {"p10 - p90"},
       [](Row r) {
         return r.predicted.p10 ? range_cell(*r.predicted.p10, *r.predicted.p90) : "-";
       }},
      {"predicted_parts_s", [](Row r) { return parts_json(r.predicted.parts); }},
      {"at_sites", [](Row r) { return at_sites_json(r.predicted); }},
      {"measured_peak_memory_bytes", [](Row r) { return r.run.peak_memory; }, {"memory"}},
      {"predicted_peak_memory_bytes",
       [](Row r) { return r.predicted.memory; },
       {"predicted"},
       [](Row r) { return r.run.peak_memory ? Cell(r.predicted.memory) : "-"; }},
      {"",
       [](Row r) { return error_of(r.predicted.memory, r.run.peak_memory); },
       {"error"},
       error_cell},
      {"measured_mfu", [](Row r) { return r.measured_mfu(); }},
      {"memory_kind",
       [](Row r) { return r.run.memory_kind ? Json(to_text(*r.run.memory_kind)) : Json(nullptr); }},
      {"needed_memory_bytes", [](Row r) { return r.predicted.needed; }},
      {"memory_limit_bytes", [](Row r) { return r.predicted.memory_limit; }},
      {"memory_risk", [](Row r) { return r.predicted.memory_risk; }},
      {"failed", [](Row r) { return r.run.outcome != Outcome::Measured; }},
      {"expressible", is_expressible},
      {"feasible", feasible},
      {"verdict", [](Row r) { return to_text(r.predicted.verdict); }},
      {"reason",
       [](Row r) { return or_null(r.predicted.reason); },
       {"remark", Align::Left},
       remark},
      {"regimes", [](Row r) { return r.predicted.regimes; }},
      {"suspect", [&suspects](Row r) { return suspects.contains(r.run.id); }},
      {"filled", [](Row r) { return r.predicted.filled; }},
      {"micro_batch", micro_batch},
      {"micro_batch_chosen", [](Row r) { return r.predicted.chosen_micro_batch; }}};
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
  std::ranges::stable_sort(shares, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> listed;
  for (const auto& [time, name] : shares) {
    const double share = time / parts.total();
    if (share >= 0.01) listed.push_back(fmt::format("{} {:.0f} %", name, 100.0 * share));
  }
  return fmt::format("{}", fmt::join(listed, ", "));
}

std::string worst_text(const std::vector<PredictedRun>& runs) {
  const PredictedRun* worst = nullptr;
  double largest = 0.0;
  for (const PredictedRun& row : runs) {
    if (!row.has_both_times()) continue;
    const double error = std::abs(*error_of(row.predicted.step_time, row.run.step_time));
    if (error <= largest) continue;
    largest = error;
    worst = &row;
  }
  if (worst == nullptr) return {};
  const auto& [run, p] = *worst;
  std::string text =
      fmt::format("\nworst: {}, predicted {:.1f} % too {} ({}; measured {})\n", run.id,
                  100.0 * largest, *p.step_time > *run.step_time ? "slow" : "fast",
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

Json rows_json(const RunReport& report) {
  return objects_of(columns_of(report.suspects), report.runs);
}

std::string rows_table(const RunReport& report, int columns) {
  if (report.runs.size() > kFewRows) return {};
  std::string text = "\n" + table_of(columns_of(report.suspects), report.runs).text(columns) +
                     worst_text(report.runs);
  if (!report.unread.empty()) {
    text += fmt::format("columns that were not read: {}\n", fmt::join(report.unread, ", "));
  }
  return text;
}

}  // namespace plansearch
