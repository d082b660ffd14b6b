// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "plansearch/report.hpp"
#include "report/columns.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"
#include "report/text_table.hpp"
#include "report/training.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

std::string headline(const QuestionReport& q) {
  return fmt::format("{}{} ({} parameters, sequence {}) on {}: {} x {}, batch {}, {}, {}\n",
                     beyond_line(q), q.model, count_text(static_cast<double>(q.parameters)),
                     q.seq_len, q.hardware, q.gpus, q.accelerator, q.global_batch, q.precision,
                     framework_text(q));
}

std::string counts_lines(const SearchReport& report) {
  const CountsReport& c = report.counts;
  std::string text = fmt::format(
      "{} plans in space {}: {} priced, {} pruned by bounds, {} simulated", grouped(c.total),
      c.space, grouped(c.evaluated), grouped(c.pruned), grouped(c.simulated));
  std::int64_t rejected = 0;
  for (const auto& [reason, plans] : c.rejected) rejected += plans;
  text += fmt::format(", {} rejected", grouped(rejected));
  if (c.unvisited > 0) text += fmt::format(", {} not priced", grouped(c.unvisited));
  std::vector<std::string> reasons;
  for (const auto& [reason, plans] : c.rejected) {
    reasons.push_back(fmt::format("{} {}", reason, grouped(plans)));
  }
  if (!reasons.empty()) text += fmt::format("\nrejected: {}", fmt::join(reasons, ", "));
  for (const std::string& what : c.left_out) text += fmt::format("\nleft out: {}", what);
  return text + "\n" + report.optimality + "\n";
}

std::string settings_line(const QuestionReport& question) {
  std::vector<std::string> parts;
  for (const SettingReport& s : question.settings) {
    parts.push_back(fmt::format("{}={} ({})", s.key, s.value, s.origin));
  }
  return fmt::format("settings: {}\n", fmt::join(parts, ", "));
}

/// A search that was cut short has not shown that nothing fits.
std::string_view nothing_found(const SearchReport& report) {
  return report.stopped ? "cut short, nothing found" : "no plan fits";
}

std::string misses_text(const SearchReport& report, int columns) {
  std::string text = fmt::format("{}\n", nothing_found(report));
  if (!report.misses.empty()) {
    text += "\nnearest misses:\n";
    text += miss_table(report.misses).text(columns) + "\n";
  }
  for (const std::string& remedy : report.remedies) text += fmt::format("hint: {}\n", remedy);
  return text;
}

/// "rank 7, +3 %", or why there is no price.
std::string place_of(const PublishedReport& plan) {
  if (!plan.reason.empty()) return plan.reason;
  std::string text = plan.rank > 0 ? fmt::format("rank {}", plan.rank) : "";
  if (!plan.fits) text = fmt::format("needs {}", to_text(plan.memory));
  const double percent = 100.0 * plan.over_first;
  return text + fmt::format("{}{:+.{}f} %", text.empty() ? "" : ", ", percent,
                            std::abs(percent) < 10.0 ? 1 : 0);
}

/// The best of the published plans in one line, or a table of all.
std::string published_text(const SearchReport& report, int columns) {
  if (report.published.empty()) {
    if (!report.list_published) return "";
    const std::string& elsewhere = report.published_elsewhere;
    return fmt::format("published: no recipe of this model on this machine at this size{}{}\n",
                       elsewhere.empty() ? " (plansearch list recipes)" : "; of it on ", elsewhere);
  }
  const PublishedReport& first = report.published.front();
  const std::string others = report.published.size() > 1 && !report.list_published
                                 ? fmt::format("; {} more: --recipes", report.published.size() - 1)
                                 : "";
  std::string text =
      fmt::format("published: {}{}{} ({}, {}{})\n", first.words, first.words.empty() ? "" : ": ",
                  place_of(first), first.name, first.date, others);
  if (!report.list_published) return text;
  return text + "\n" + published_table(report.published).text(columns) +
         "published step, tokens/s a GPU: as published, of the recipe's own batch, length and "
         "precision; error: of the step predicted for these\n";
}

std::string search_table(const SearchReport& report, int columns) {
  std::string text = headline(report.question) + "\n";
  if (!report.selection.empty()) text += report.selection + "\n\n";
  text += report.plans.empty() ? misses_text(report, columns) : ranking_table(report, columns);
  for (const std::string& advice : report.advice) text += fmt::format("hint: {}\n", advice);
  text += published_text(report, columns);
  text += "\n" + training_line(report.question);
  if (report.counts.total > 0 || report.stopped) text += counts_lines(report);
  return wrapped(text + settings_line(report.question) + report.evidence + "\n", columns);
}

/// One plan, with what it belongs to.
Json line_json(const QuestionReport& question, const PlanReport& plan) {
  Json line = identity_json(question);
  line.update(plan_json(question, plan));
  return line;
}

/// Plans of one or several questions, one to a line.
class PlanLines {
 public:
  explicit PlanLines(Format format) : format_(format) {}

  void add(const QuestionReport& question, const PlanReport& plan) {
    if (format_ == Format::JsonLines) {
      text_ += json_text(line_json(question, plan)) + "\n";
      return;
    }
    const Json row = plan_row(question, plan, RowKind::Ranked);
    if (text_.empty()) text_ = csv_header(row);
    text_ += csv_line(row);
  }
  /// The header of CSV stands alone where there are no plans.
  [[nodiscard]] std::string text() const {
    const bool bare = text_.empty() && format_ == Format::Csv;
    return bare ? csv_header(plan_row({}, {}, RowKind::Ranked)) : text_;
  }

 private:
  Format format_;
  std::string text_;
};

std::string search_lines(const SearchReport& report, Format format) {
  PlanLines lines(format);
  for (const PlanReport& plan : report.plans) lines.add(report.question, plan);
  return lines.text();
}

std::string ladder_table(const std::vector<LadderRung>& ladder, int columns) {
  const TextTable table = ladder_rows(ladder);
  std::string legend = "each row: the fastest plan of that size";
  if (table.shows("speed-up", columns)) {
    legend += "; speed-up: of the step over the smallest size that runs";
  }
  legend += "; efficiency: work of a GPU over that at the best size";
  if (table.shows("p10 - p90", columns)) legend += "; p10 - p90: 80 % of outcomes";
  return table.text(columns) + legend + "\n";
}

/// The answer of the chosen size, and the best plan of every size.
Json ladder_json(const LadderReport& ladder) {
  Json json = to_json(ladder.rungs.at(ladder.chosen).report);
  json["ladder_choice"] = ladder.choice;
  json["ladder_ceiling"] = or_null(ladder.ceiling);
  json["ladder"] = Json::array();
  for (const LadderRung& rung : ladder.rungs) {
    Json entry{{"gpus", rung.report.question.gpus}};
    const bool runs = !rung.report.plans.empty();
    entry["speedup"] = runs ? Json(rung.speedup) : nullptr;
    entry["efficiency"] = runs ? Json(rung.efficiency) : nullptr;
    entry["plan"] = runs ? plan_json(rung.report.question, rung.report.plans.front()) : nullptr;
    json["ladder"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace

/// "-" in the columns of a size without a plan.
TextTable ladder_rows(const std::vector<LadderRung>& ladder) {
  using Rung = const LadderRung&;
  const auto best = [](Rung r) -> std::optional<ShownPlan> {
    if (r.report.plans.empty()) return std::nullopt;
    const bool tight = r.report.admitted == MemoryFit::Tight;
    return ShownPlan{r.report.question, r.report.plans.front(), tight ? ", tight" : ""};
  };
  const auto if_it_runs = [](Rung r, const std::string& text) {
    return Cell(r.report.plans.empty() ? "-" : text);
  };
  Columns<LadderRung> columns{
      {"", [](Rung r) { return grouped(r.report.question.gpus); }, {"GPUs"}},
      {"",
       [](Rung r) {
         return r.report.plans.empty() ? std::string(nothing_found(r.report))
                                       : short_plan(r.report.plans.front().plan);
       },
       {"best plan", Align::Left}}};
  append<LadderRung, ShownPlan>(columns, plan_columns(PlanTable::Ladder), best);
  const auto speedup = [=](Rung r) { return if_it_runs(r, fmt::format("{:.2f}", r.speedup)); };
  columns.push_back({"", speedup, {"speed-up", Align::Right, 4}});
  const auto efficiency = [=](Rung r) { return if_it_runs(r, share_text(r.efficiency)); };
  columns.push_back({"", efficiency, {"efficiency"}});
  if (ladder.front().report.question.tokens) {
    append<LadderRung, TrainingCost>(columns, training_columns(), [=](Rung r) {
      const auto shown = best(r);
      return shown ? training_cost(shown->question, shown->plan) : std::nullopt;
    });
  }
  return table_of(columns, ladder);
}

TextTable miss_table(const std::vector<NearMissReport>& misses) {
  TextTable table({{"plan", Align::Left},
                   {"needs"},
                   {"has"},
                   {"short by"},
                   {"parameters", Align::Right, 3},
                   {"gradients", Align::Right, 4},
                   {"optimizer", Align::Right, 2},
                   {"activations", Align::Right, 1},
                   {"rest", Align::Right, 5}});
  for (const NearMissReport& miss : misses) {
    const MemoryBreakdown& m = miss.memory;
    table.add_row({short_plan(miss.plan), m.total(), miss.limit, miss.excess(), m.parameters,
                   m.gradients, m.optimizer, m.activations, m.transient + m.buffers + m.reserve});
  }
  return table;
}

TextTable published_table(const std::vector<PublishedReport>& published) {
  TextTable table({{"published plan", Align::Left},
                   {"step"},
                   {"beside plan 1", Align::Left},
                   {"memory"},
                   {"published step", Align::Right, 2},
                   {"tokens/s a GPU"},
                   {"error"},
                   {"date", Align::Left, 1},
                   {"recipe", Align::Left}});
  for (const PublishedReport& plan : published) {
    const bool known = plan.reason.empty();
    table.add_row(
        {known ? plan.words : "-", known ? Cell(plan.step) : Cell("-"), place_of(plan),
         known ? Cell(plan.memory) : Cell("-"), plan.measured ? Cell(*plan.measured) : Cell("-"),
         plan.measured_rate > 0.0 ? Cell(count_text(plan.measured_rate)) : Cell("-"),
         plan.measured_rate > 0.0 ? Cell(fmt::format("{:+.0f} %", 100.0 * plan.error)) : Cell("-"),
         plan.date, plan.name});
  }
  return table;
}

std::string render_search(const SearchReport& report, Format format, int columns) {
  const Json json = to_json(report);
  require_finite(json);
  switch (format) {
    case Format::Table:
      return search_table(report, columns);
    case Format::Json:
      return json_text(json, 2) + "\n";
    case Format::JsonLines:
    case Format::Csv:
      break;
  }
  return search_lines(report, format);
}

std::string render_ladder(const LadderReport& ladder, Format format, int columns) {
  const SearchReport& chosen = ladder.rungs.at(ladder.chosen).report;
  const Json json = ladder_json(ladder);
  require_finite(json);
  if (format == Format::Table) {
    const QuestionReport& q = chosen.question;
    const std::string ceiling = ladder.ceiling.empty() ? "" : ladder.ceiling + "\n";
    return wrapped(fmt::format("how many GPUs: {} on {}, batch {} fixed\n\n{}{}\n{}\n\n{}", q.model,
                               q.hardware, q.global_batch, ladder_table(ladder.rungs, columns),
                               ceiling, ladder.choice, search_table(chosen, columns)),
                   columns);
  }
  if (format != Format::Json) {
    PlanLines lines(format);
    for (const LadderRung& rung : ladder.rungs) {
      if (!rung.report.plans.empty()) lines.add(rung.report.question, rung.report.plans.front());
    }
    return lines.text();
  }
  return json_text(json, 2) + "\n";
}

}  // namespace plansearch
