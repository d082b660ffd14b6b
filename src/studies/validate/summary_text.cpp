// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/summary_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "report/text_table.hpp"
#include "studies/validate/run_groups.hpp"
#include "studies/validate/run_rows.hpp"
#include "studies/validate/site_text.hpp"
#include "studies/validate/summary_section.hpp"

namespace plansearch {
namespace {

constexpr std::size_t kWidestName = 46;

/// Of tables with few rows: the legend of what they show.
constexpr std::string_view kShortLegend =
    "\n  mean, median, p90  of |predicted / measured - 1|; bias: mean of predicted / measured - 1\n"
    "  inside             % of measured times between the predicted p10 and p90 (ideal: 80)\n";

std::string count(std::size_t value) {
  return fmt::format("{}", value);
}

std::string share(std::size_t part, std::size_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.0f}", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string of(std::size_t part, std::size_t whole) {
  return fmt::format("{}/{}", part, whole);
}

std::string step_times(const RunReport& report, const std::vector<GroupPair>& pairs, int columns) {
  Section section(report, "STEP TIME, error in %",
                  {"rows", "mean", "median", "p90", "bias", "inside"});
  for (const GroupPair& pair : pairs) {
    section.add(pair, [](const GroupSummary& group) -> std::vector<std::string> {
      if (group.step_time.rows == 0) return {};
      std::vector<std::string> cells = error_cells(group.step_time);
      cells.push_back(share(group.within_interval, group.step_time.rows));
      return cells;
    });
  }
  return section.text(columns);
}

std::string memories(const RunReport& report, const std::vector<GroupPair>& pairs, int columns) {
  std::string text;
  for (std::size_t kind = 0; kind < kMemoryKindCount; ++kind) {
    Section section(
        report, fmt::format("PEAK MEMORY ({}), error in %", to_text(static_cast<MemoryKind>(kind))),
        {"rows", "mean", "median", "p90", "bias"});
    for (const GroupPair& pair : pairs) {
      section.add(pair, [&](const GroupSummary& group) -> std::vector<std::string> {
        if (group.memory[kind].rows == 0) return {};
        return error_cells(group.memory[kind]);
      });
    }
    text += section.text(columns);
  }
  return text;
}

std::string rankings(const RunReport& report, const std::vector<GroupPair>& pairs, int columns) {
  Section section(report, "RANKING inside sweeps",
                  {"sweeps", "regret", "median", "top-1", "top-3", "of >= 3", "tau-b"});
  for (const GroupPair& pair : pairs) {
    if (is_derived_group(pair.all->by)) continue;  // would cut sweeps into pieces
    section.add(pair, [](const GroupSummary& group) -> std::vector<std::string> {
      const RankingSummary& r = group.ranking;
      if (r.sweeps == 0) return {};
      return {count(r.sweeps),
              percent_cell(r.mean_regret),
              percent_cell(r.median_regret),
              of(r.top1, r.sweeps),
              of(r.top3, r.sweeps),
              count(r.tau_sweeps),
              r.tau_sweeps == 0 ? "-" : fmt::format("{:.3f}", r.mean_tau)};
    });
  }
  return section.text(columns);
}

/// Of all rows: which of them can be trusted does not matter to what can run.
std::string feasibilities(const std::vector<GroupPair>& pairs, int columns) {
  TextTable table({{"FEASIBILITY, rows", Align::Left},
                   {"ran"},
                   {"illegal"},
                   {"too large"},
                   {"failed"},
                   {"illegal"},
                   {"too large"},
                   {"feasible"},
                   {"inexpressible"}});
  for (const GroupPair& pair : pairs) {
    const FeasibilitySummary& f = pair.all->feasibility;
    const bool overview = pair.all->by == "all" || pair.all->by == "source";
    if (!overview && f.measured_illegal + f.measured_too_large + f.failed == 0) continue;
    if (is_derived_group(pair.all->by)) continue;
    table.add_row({pair.all->by == "all" ? "all" : pair.all->by + " " + shortened(pair.all->value),
                   count(f.measured), count(f.measured_illegal), count(f.measured_too_large),
                   count(f.failed), count(f.failed_illegal), count(f.failed_too_large),
                   count(f.failed_called_feasible), count(pair.all->inexpressible)});
  }
  return "\n" + table.text(columns);
}

/// Stated against observed, in the bins of the verdicts.
std::string risks(const std::vector<GroupPair>& pairs, int columns) {
  TextTable table({{"MEMORY RISK, failed of rows", Align::Left},
                   {"<= 0.1"},
                   {"<= 0.5"},
                   {"<= 0.9"},
                   {"above"},
                   {"Brier"},
                   {"base rate"},
                   {"hard limit"}});
  bool any = false;
  for (const GroupPair& pair : pairs) {
    const RiskSummary& risk = pair.all->risk;
    const bool overview = pair.all->by == "all" || pair.all->by == "source";
    if (!overview || risk.rows == 0) continue;
    std::vector<std::string> line{
        pair.all->by == "all" ? "all" : pair.all->by + " " + shortened(pair.all->value)};
    for (const RiskBin& bin : risk.bins) {
      line.push_back(bin.rows == 0 ? "-"
                                   : fmt::format("{}/{} ({:.0f} % stated)", bin.failed, bin.rows,
                                                 100.0 * bin.stated));
    }
    append(line, {fmt::format("{:.3f}", risk.brier), fmt::format("{:.3f}", risk.brier_base),
                  fmt::format("{:.3f}", risk.brier_hard)});
    table.add_row({line.begin(), line.end()});
    any = true;
  }
  return any ? "\n" + table.text(columns) : "";
}

/// Reasons and how many rows share each; ids where they are few.
std::string left_out(const RunReport& report) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    if (report.predictions[i].verdict != Verdict::Inexpressible) continue;
    by_reason[report.predictions[i].reason].push_back(report.runs[i].id);
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
      std::count_if(report.predictions.begin(), report.predictions.end(),
                    [](const RunPrediction& prediction) { return prediction.chosen_micro_batch; });
  if (chosen > 0) {
    text += fmt::format("\n{} row{} without a micro-batch: predicted at the fastest that fits",
                        chosen, chosen == 1 ? "" : "s");
  }
  return text + "\n";
}

std::string legend(const RunReport& report) {
  std::string text =
      "\n"
      "  mean, median, p90  of |predicted / measured - 1|; bias: mean of predicted / measured - 1\n"
      "  inside             % of measured times between the predicted p10 and p90 (ideal: 80)\n"
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
  text += site_legend();
  if (report.sets.size() > 1) {
    text += "  *                  the same without the rows that --suspect lists\n";
  }
  return text;
}

}  // namespace

std::string shortened(const std::string& value) {
  if (value.empty()) return "(empty)";
  if (value.size() <= kWidestName) return value;
  return value.substr(0, kWidestName - 3) + "...";
}

std::string percent_cell(double ratio) {
  return fmt::format("{:.1f}", 100.0 * ratio);
}

std::vector<std::string> error_cells(const ErrorSummary& e) {
  if (e.rows == 0) return {"0", "-", "-", "-", "-"};
  return {count(e.rows), percent_cell(e.mean), percent_cell(e.median), percent_cell(e.p90),
          fmt::format("{:+.1f}", 100.0 * e.bias)};
}

std::string summary_text(const RunReport& report, int columns) {
  const std::vector<GroupPair> pairs = pair_up(report);
  const std::string rows = rows_text(report, columns);
  const bool rows_say_all = !rows.empty() && pairs.size() == 1 && report.sets.size() == 1;
  std::string text = opening(report) + rows + step_times(report, pairs, columns) +
                     site_errors_text(report, pairs, columns) +
                     fit_study_text(report.fits, columns) + memories(report, pairs, columns);
  if (!rows_say_all) {
    text +=
        rankings(report, pairs, columns) + feasibilities(pairs, columns) + risks(pairs, columns);
  }
  text += left_out(report);
  text += rows_say_all ? std::string(kShortLegend) + site_legend() : legend(report);
  return wrapped(text, columns);
}

}  // namespace plansearch
