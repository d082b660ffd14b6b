// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/run_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "report/csv_text.hpp"
#include "report/json_text.hpp"
#include "studies/validate/run_ranking.hpp"
#include "studies/validate/summary_json.hpp"
#include "studies/validate/summary_text.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

template <typename Q>
Json number(const std::optional<Q>& value) {
  if (!value) return nullptr;
  return value->value();
}

Json text(const std::string& value) {
  if (value.empty()) return nullptr;
  return value;
}

Json parts_json(const StepTimeBreakdown& parts) {
  return {{"compute", parts.compute.value()},
          {"recompute", parts.recompute.value()},
          {"exposed_communication", parts.exposed_total().value()},
          {"bubble", parts.bubble.value()},
          {"optimizer", parts.optimizer.value()},
          {"host", parts.host.value()},
          {"site", parts.site.value()}};
}

Json at_sites_json(const RunPrediction& prediction) {
  Json json = Json::object();
  for (std::size_t view = 0; view < kSiteViewCount; ++view) {
    const auto& at = prediction.at_sites[view];
    json[std::string(key_of(static_cast<SiteView>(view)))] =
        at ? Json{{"step_time_s", at->time.value()},
                  {"p10_s", at->p10.value()},
                  {"p90_s", at->p90.value()}}
           : Json(nullptr);
  }
  return json;
}

Json row_json(const RunReport& report, std::size_t index) {
  const RunRecord& run = report.runs[index];
  const RunPrediction& p = report.predictions[index];
  const bool expressible = p.verdict != Verdict::Inexpressible;
  Json json;
  json["id"] = run.id;
  json["source"] = text(run.cell("source"));
  json["site"] = text(p.site);
  json["hw"] = run.hardware;
  json["framework"] = run.framework;
  json["measured_step_time_s"] = number(run.step_time);
  json["predicted_step_time_s"] = number(p.step_time);
  json["predicted_p10_s"] = number(p.p10);
  json["predicted_p90_s"] = number(p.p90);
  json["predicted_parts_s"] = p.parts ? parts_json(*p.parts) : Json(nullptr);
  json["at_sites"] = at_sites_json(p);
  json["measured_peak_memory_bytes"] = number(run.peak_memory);
  json["predicted_peak_memory_bytes"] = number(p.memory);
  const auto mfu = run.step_time ? p.mfu(*run.step_time) : std::nullopt;
  json["measured_mfu"] = mfu ? Json(*mfu) : Json(nullptr);
  json["memory_kind"] = run.memory_kind ? Json(to_text(*run.memory_kind)) : Json(nullptr);
  json["needed_memory_bytes"] = number(p.needed);
  json["memory_risk"] = p.memory_risk ? Json(*p.memory_risk) : Json(nullptr);
  json["failed"] = run.outcome != Outcome::Measured;
  json["expressible"] = expressible;
  json["feasible"] = expressible ? Json(p.verdict == Verdict::Feasible) : Json(nullptr);
  json["verdict"] = to_text(p.verdict);
  json["reason"] = text(p.reason);
  json["regimes"] = p.regimes;
  json["suspect"] = report.suspects.contains(run.id);
  json["filled"] = p.filled;
  json["micro_batch"] = p.plan ? Json(p.plan->micro_batch) : Json(nullptr);
  json["micro_batch_chosen"] = p.chosen_micro_batch;
  return json;
}

/// Sweeps of all rows; ids say what was chosen and what was best.
Json sweeps_json(const RunReport& report) {
  std::vector<std::size_t> rows(report.runs.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  Json sweeps = Json::array();
  for (const Sweep& sweep : sweeps_of(report.runs, report.predictions, rows)) {
    const RunRecord& best = report.runs[sweep.best];
    const bool ranked = sweep.rows.size() >= 3;
    sweeps.push_back(
        {{"source", text(best.cell("source"))},
         {"hw", best.hardware},
         {"framework", best.framework},
         {"precision", text(best.question.precision.value_or(""))},
         {"model", text(best.model)},
         {"gpus", best.gpus},
         {"seq_len", best.seq_len},
         {"global_batch", best.global_batch},
         {"rows", sweep.rows.size()},
         {"best", best.id},
         {"chosen", report.runs[sweep.chosen].id},
         {"regret", sweep.ranking.regret},
         {"tau", ranked && sweep.ranking.tau ? Json(*sweep.ranking.tau) : Json(nullptr)}});
  }
  return sweeps;
}

/// null where no fits were asked for.
Json fits_json(const FitStudy& study) {
  if (study.draws.runs == 0) return nullptr;
  Json groups = Json::array();
  for (const FittedGroup& group : study.groups) {
    groups.push_back({{"group", group.name},
                      {"rows", group.rows},
                      {"error_before", group.before},
                      {"error_after", group.after},
                      {"refused", group.refused},
                      {"worse", group.worse()}});
  }
  return {{"runs", study.draws.runs},
          {"repeat", study.draws.repeat},
          {"median_error_before", study.median_before()},
          {"median_error_after", study.median_after()},
          {"refused", study.refused()},
          {"groups", std::move(groups)}};
}

Json report_json(const RunReport& report) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < report.runs.size(); ++i) rows.push_back(row_json(report, i));
  Json summary = Json::array();
  for (const SummarySet& set : report.sets) {
    for (const GroupSummary& group : set.groups) summary.push_back(summary_json(set.name, group));
  }
  return {{"schema", "plansearch/validate/v1"}, {"table", "runs"},
          {"min_mfu", report.min_mfu},          {"rows", std::move(rows)},
          {"sweeps", sweeps_json(report)},      {"summary", std::move(summary)},
          {"fit_on", fits_json(report.fits)}};
}

std::string render_lines(const RunReport& report) {
  std::string lines;
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    lines.append(json_text(row_json(report, i))).append(1, '\n');
  }
  return lines;
}

std::string render_csv(const RunReport& report) {
  std::string out =
      "id,measured_step_time_s,predicted_step_time_s,predicted_p10_s,predicted_p90_s,"
      "measured_peak_memory_bytes,predicted_peak_memory_bytes,memory_risk,expressible,feasible,"
      "reason,micro_batch,micro_batch_chosen\n";
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const Json row = row_json(report, i);
    CsvLine line;
    for (const char* key : {"id", "measured_step_time_s", "predicted_step_time_s",
                            "predicted_p10_s", "predicted_p90_s", "measured_peak_memory_bytes",
                            "predicted_peak_memory_bytes", "memory_risk", "expressible", "feasible",
                            "reason", "micro_batch", "micro_batch_chosen"}) {
      const Json& value = row.at(key);
      line.add(value.is_null()     ? ""
               : value.is_string() ? value.get<std::string>()
                                   : json_text(value));
    }
    out += line.text();
  }
  return out;
}

}  // namespace

std::string render_runs(const RunReport& report, Format format, int columns) {
  const Json json = report_json(report);
  require_finite(json);
  switch (format) {
    case Format::Json:
      return json_text(json, 1) + "\n";
    case Format::JsonLines:
      return render_lines(report);
    case Format::Csv:
      return render_csv(report);
    case Format::Table:
      break;
  }
  return summary_text(report, columns);
}

}  // namespace plansearch
