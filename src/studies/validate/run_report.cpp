// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "report/columns.hpp"
#include "report/json_text.hpp"
#include "studies/validate/error_columns.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kShortLegend =
    "\n  mean, median, p90  of |predicted / measured - 1|; bias: mean of predicted / measured - 1\n"
    "  inside             % of measured times between the predicted p10 and p90 (ideal: 80)\n";

constexpr const char* kSiteLegend =
    "  own                the factor of the row's own measured site (in sample); rows of no\n"
    "                     measured site are not in it\n"
    "  typical            the factor of a typical site, which answers have by default\n"
    "  left out           the same, computed without the sites of the row's laboratory; "
    "other\n"
    "                     constants that were fitted to its runs stay as they are\n";

/// Reasons and how many rows share each; ids where they are few.
std::string left_out(const RunReport& report) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& [run, predicted] : report.runs) {
    if (predicted.verdict == Verdict::Inexpressible) by_reason[predicted.reason].push_back(run.id);
  }
  if (by_reason.empty()) return {};
  std::string text = "\nROWS THAT CANNOT BE EXPRESSED, by reason\n";
  constexpr std::size_t kShown = 8;
  for (const auto& [reason, ids] : by_reason) {
    text += fmt::format("  {} ({} {}):", reason, ids.size(), ids.size() == 1 ? "row" : "rows");
    for (std::size_t i = 0; i < ids.size() && i < kShown; ++i) text += " " + ids[i];
    text += ids.size() > kShown ? " ...\n" : "\n";
  }
  return text;
}

std::string opening(const RunReport& report) {
  const GroupSummary& all = report.sets.front().groups.front();
  std::string text = fmt::format(
      "{} rows: {} with a measured and a predicted step time, {} failed runs, {} that "
      "cannot be expressed",
      all.rows, all.step_time.rows, all.feasibility.failed, all.inexpressible);
  if (report.sets.size() > 1) text += fmt::format(", {} suspects", report.suspects.size());
  if (report.min_mfu > 0.0) {
    text += fmt::format("; step times below {:.1f} % MFU left out", 100.0 * report.min_mfu);
  }
  const auto chosen =
      std::count_if(report.runs.begin(), report.runs.end(),
                    [](const PredictedRun& row) { return row.predicted.chosen_micro_batch; });
  if (chosen > 0) {
    text += fmt::format("\n{} row{} without a micro-batch: predicted at the fastest that fits",
                        chosen, chosen == 1 ? "" : "s");
  }
  return text + "\n";
}

/// Of whole summaries.
std::string legend(const RunReport& report) {
  std::string text =
      "  sweep              rows that differ in the plan only: same source, hw, framework,\n"
      "                     precision, model, gpus, seq_len and global_batch; two rows or more\n"
      "  regret             measured time of the plan predicted fastest over that of the plan\n"
      "                     measured fastest, minus 1: mean and median over sweeps, in %\n"
      "  top-1, top-3       sweeps whose best plan is our first choice, among our first three\n"
      "  tau-b              Kendall's rank correlation, mean over sweeps of three rows or more\n"
      "                     that we do not predict alike (repeated runs of one plan rank nothing)\n"
      "  illegal, too large runs that we say cannot run: degrees and rules, or memory; "
      "\"feasible\"\n"
      "                     behind \"failed\": we would have run what crashed\n"
      "  Brier              mean of (stated risk - failed)^2 of legal runs: 0 is perfect; base "
      "rate:\n"
      "                     always stating the share that failed; hard limit: stating 0 or 1\n";
  text += kSiteLegend;
  if (report.sets.size() > 1) {
    text += "  *                  the same without the rows that --suspect lists\n";
  }
  return text;
}

/// The summary as aligned tables: step time, memory, ranking, feasibility, rows left out.
std::string summary_text(const RunReport& report, int columns) {
  const std::string rows = rows_table(report, columns);
  const bool rows_say_all =
      !rows.empty() && report.sets.front().groups.size() == 1 && report.sets.size() == 1;
  std::string text = opening(report) + rows + time_tables(report, columns) +
                     fit_study_text(report.fits, columns) + memory_tables(report, columns);
  if (!rows_say_all) text += plan_tables(report, columns);
  text += left_out(report);
  text += kShortLegend;
  text += rows_say_all ? kSiteLegend : legend(report);
  return wrapped(text, columns);
}

Json ranking_json(const RankingSummary& ranking) {
  return {{"sweeps", ranking.sweeps},
          {"median_regret", if_any(ranking.sweeps, ranking.median_regret)},
          {"mean_regret", if_any(ranking.sweeps, ranking.mean_regret)},
          {"worst_regret", if_any(ranking.sweeps, ranking.worst_regret)},
          {"tau_sweeps", ranking.tau_sweeps},
          {"mean_tau", if_any(ranking.tau_sweeps, ranking.mean_tau)},
          {"median_tau", if_any(ranking.tau_sweeps, ranking.median_tau)},
          {"top1", ranking.top1},
          {"top3", ranking.top3}};
}

Json feasibility_json(const FeasibilitySummary& f) {
  return {{"measured", f.measured},
          {"measured_called_illegal", f.measured_illegal},
          {"measured_called_out_of_memory", f.measured_too_large},
          {"failed", f.failed},
          {"failed_called_illegal", f.failed_illegal},
          {"failed_called_out_of_memory", f.failed_too_large},
          {"failed_called_feasible", f.failed_called_feasible}};
}

/// null where no failure was recorded.
Json risk_json(const RiskSummary& risk) {
  if (risk.rows == 0) return nullptr;
  Json bins = array_of(risk.bins, [&](const RiskBin& bin) -> Json {
    return {{"low", bin.low},
            {"high", bin.high},
            {"rows", bin.rows},
            {"stated", if_any(bin.rows, bin.stated)},
            {"failed", bin.failed}};
  });
  return {{"rows", risk.rows},
          {"failed", risk.failed},
          {"brier", risk.brier},
          {"brier_base_rate", risk.brier_base},
          {"brier_hard_limit", risk.brier_hard},
          {"bins", std::move(bins)}};
}

Json alike_json(const AlikeSummary& alike) {
  return {{"groups", alike.groups},
          {"mean_absolute_error", if_any(alike.groups, alike.mean)},
          {"median_of_mean_errors", if_any(alike.groups, alike.median)},
          {"bias", if_any(alike.groups, alike.bias)},
          {"within_p10_p90", if_any(alike.groups, alike.within)},
          {"groups_below_40_percent_inside", if_any(alike.groups, alike.rarely_inside)}};
}

Json at_sites_json(const GroupSummary& group) {
  Json json = Json::object();
  for (const SiteView view : kSiteViews) {
    const SiteErrors& at = group.at_sites.at(static_cast<std::size_t>(view));
    Json errors = object_of(time_error_columns(), at.errors);
    errors["sources_alike"] = alike_json(at.by_source);
    errors["sites_alike"] = alike_json(at.by_site);
    json[key_of(view)] = std::move(errors);
  }
  return json;
}

/// One entry of summary[].
Json summary_json(const std::string& set, const GroupSummary& group) {
  Json memory = Json::object();
  for (std::size_t kind = 0; kind < kMemoryKindCount; ++kind) {
    if (group.memory[kind].rows == 0) continue;
    memory[std::string(to_text(static_cast<MemoryKind>(kind)))] =
        object_of(error_columns(), group.memory[kind]);
  }
  return {{"set", set},
          {"by", group.by},
          {"value", group.by == "all" ? Json(nullptr) : Json(group.value)},
          {"rows", group.rows},
          {"inexpressible", group.inexpressible},
          {"step_time", object_of(time_error_columns(), group.step_time)},
          {"at_sites", at_sites_json(group)},
          {"memory", std::move(memory)},
          {"ranking", ranking_json(group.ranking)},
          {"feasibility", feasibility_json(group.feasibility)},
          {"memory_risk", risk_json(group.risk)}};
}

/// Sweeps of all rows; ids say what was chosen and what was best.
Json sweeps_json(const std::vector<PredictedRun>& runs) {
  std::vector<std::size_t> rows(runs.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  Json sweeps = Json::array();
  for (const Sweep& sweep : sweeps_of(runs, rows)) {
    const RunRecord& best = runs[sweep.best].run;
    const bool ranked = sweep.rows.size() >= 3;
    sweeps.push_back(
        {{"source", or_null(best.cell("source"))},
         {"hw", best.hardware},
         {"framework", best.framework},
         {"precision", or_null(best.question.precision.value_or(""))},
         {"model", or_null(best.model)},
         {"gpus", best.gpus},
         {"seq_len", best.seq_len},
         {"global_batch", best.global_batch},
         {"rows", sweep.rows.size()},
         {"best", best.id},
         {"chosen", runs[sweep.chosen].run.id},
         {"regret", sweep.ranking.regret},
         {"tau", ranked && sweep.ranking.tau ? Json(*sweep.ranking.tau) : Json(nullptr)}});
  }
  return sweeps;
}

/// null where no fits were asked for.
Json fits_json(const FitStudy& study) {
  if (study.draws.runs == 0) return nullptr;
  Json groups = array_of(study.groups, [&](const FittedGroup& group) -> Json {
    return {{"group", group.name},          {"rows", group.rows},
            {"error_before", group.before}, {"error_after", group.after},
            {"refused", group.refused},     {"worse", group.worse()}};
  });
  return {{"runs", study.draws.runs},
          {"repeat", study.draws.repeat},
          {"median_error_before", study.median_before()},
          {"median_error_after", study.median_after()},
          {"refused", study.refused()},
          {"groups", std::move(groups)}};
}

/// Some columns of the rows; switches in words.
Json csv_rows(const Json& rows) {
  Json lines = Json::array();
  for (const Json& row : rows) {
    Json line;
    for (const char* key : {"id", "measured_step_time_s", "predicted_step_time_s",
                            "predicted_p10_s", "predicted_p90_s", "measured_peak_memory_bytes",
                            "predicted_peak_memory_bytes", "memory_risk", "expressible", "feasible",
                            "reason", "micro_batch", "micro_batch_chosen"}) {
      const Json& value = row.at(key);
      line[key] = value.is_boolean() ? Json(json_text(value)) : value;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

std::string render_runs(const RunReport& report, Format format, int columns) {
  Json summary = Json::array();
  for (const SummarySet& set : report.sets) {
    for (const GroupSummary& group : set.groups) summary.push_back(summary_json(set.name, group));
  }
  Json rows = rows_json(report);
  Json csv = csv_rows(rows);
  const Answer answer{{{"schema", "plansearch/validate/v1"},
                       {"table", "runs"},
                       {"min_mfu", report.min_mfu},
                       {"rows", std::move(rows)},
                       {"sweeps", sweeps_json(report.runs)},
                       {"summary", std::move(summary)},
                       {"fit_on", fits_json(report.fits)}},
                      std::move(csv),
                      1};
  return render_answer(answer, format, [&] { return summary_text(report, columns); });
}

}  // namespace plansearch
