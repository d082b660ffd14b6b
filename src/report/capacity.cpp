// SPDX-License-Identifier: Apache-2.0
#include "report/capacity.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/ranges.hpp"
#include "base/units.hpp"
#include "report/columns.hpp"
#include "report/page/page.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"
#include "report/text_table.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;
using SizeRow = const CapacityRow&;

/// A result; "-" and null where the row has no plan.
Column<CapacityRow> result(Column<CapacityRow> column) {
  const auto value = [of = column.value](SizeRow r) { return r.runs() ? of(r) : Json(nullptr); };
  const auto cell = [of = column.cell](SizeRow r) { return r.runs() ? of(r) : Cell("-"); };
  return {column.key, value, column.title, cell};
}

/// "44.0 days - 75.9 days", or "5.5 T - 9.4 T" tokens where the limits decide the time.
std::string range_text(SizeRow row) {
  if (row.p10 < row.p90)
    return fmt::format("{} - {}", duration_text(row.p10), duration_text(row.p90));
  return fmt::format("{} - {}", count_text(row.affordable_p10.value_or(0.0)),
                     count_text(row.affordable_p90.value_or(0.0)));
}

const Columns<CapacityRow>& columns_of_rows() {
  static const Columns<CapacityRow> kColumns{
      {"hardware", [](SizeRow r) { return r.plan.question.hardware; }, {"hardware", Align::Left}},
      {"gpus", [](SizeRow r) { return r.plan.question.gpus; }, {"GPUs"}, grouped},
      result({"step_time_s",
              [](SizeRow r) { return r.plan.plan->estimate.step.total(); },
              {"step", Align::Right, 3}}),
      result({"mfu",
              [](SizeRow r) { return r.plan.plan->mfu; },
              {"MFU", Align::Right, 5},
              share_text}),
      result({"goodput", [](SizeRow r) { return r.plan.goodput->share; }, {"goodput"}, share_text}),
      result({"wall_s", &CapacityRow::wall, {"time"}}),
      result({"wall_p10_s",
              &CapacityRow::p10,
              {"p10 - p90", Align::Right, 1},
              [](SizeRow r) {
                return r.p10 < r.p90 ? range_cell(r.p10, r.p90) : Cell(range_text(r));
              }}),
      result({"wall_p90_s", &CapacityRow::p90}),
      result({"gpu_hours", &CapacityRow::gpu_hours, {"GPU-hours"}, count_cell}),
      result({"energy_j", &CapacityRow::energy_joule, {"energy", Align::Right, 2}, energy_cell}),
      result({"price_usd", &CapacityRow::price_usd, {"price"}, price_cell}),
      result({"efficiency", &CapacityRow::efficiency, {"efficiency", Align::Right, 4}, share_text}),
      result({"within_limits_chance",
              &CapacityRow::chance,
              {"chance", Align::Right, 2},
              [](SizeRow r) { return r.chance ? share_text(*r.chance) : "-"; }}),
      {"",
       &CapacityRow::affordable_tokens,
       {"trains on", Align::Right, 2},
       [](SizeRow r) { return r.affordable_tokens ? count_cell(*r.affordable_tokens) : "-"; }},
      {"within_limits", [](SizeRow r) { return r.runs() && r.beyond.empty(); }},
      {"reason", [](SizeRow r) { return or_null(r.runs() ? r.beyond : r.plan.why_none); }},
      {"best_plan",
       [](SizeRow r) { return r.runs() ? Json(short_plan(r.plan.plan->plan)) : Json(nullptr); },
       {"best plan", Align::Left},
       [](SizeRow r) {
         if (!r.runs()) return Cell(r.plan.why_none);
         return Cell(short_plan(r.plan.plan->plan) +
                     (r.beyond.empty() ? "" : fmt::format(" ({})", r.beyond)));
       }},
      result({"affordable_tokens", &CapacityRow::affordable_tokens}),
      result({"affordable_tokens_p10", &CapacityRow::affordable_p10}),
      result({"affordable_tokens_p90", &CapacityRow::affordable_p90})};
  return kColumns;
}

std::optional<double> gpus_of(SizeRow row) {
  return row.plan.question.gpus;
}
std::optional<double> wall_of(SizeRow row) {
  return row.wall.value();
}
std::optional<double> step_of(SizeRow row) {
  return row.plan.plan->estimate.step.total().value();
}
/// The most tokens within the limits come first.
std::optional<double> fewer_tokens(SizeRow row) {
  return row.affordable_tokens ? std::optional(-*row.affordable_tokens) : std::nullopt;
}
std::optional<double> gpu_hours_of(SizeRow row) {
  return row.gpu_hours;
}
std::optional<double> energy_of(SizeRow row) {
  return row.energy_joule;
}
std::optional<double> price_of(SizeRow row) {
  return row.price_usd;
}

struct Choice {
  const char* key;
  const char* what;
  CapacityMeasure measure;
};
/// By price where every row has one: GPU-hours of different machines are not comparable.
std::array<Choice, 4> choices_of(const CapacityReport& report) {
  const auto priced = [](SizeRow row) { return !row.runs() || row.price_usd.has_value(); };
  const bool all = std::ranges::all_of(report.rows, priced);
  return {{{"fastest", "fastest", wall_of},
           all ? Choice{"cheapest", "cheapest", price_of}
               : Choice{"cheapest", "fewest GPU-hours", gpu_hours_of},
           {"least_energy", "least energy", energy_of},
           {"fewest_gpus", "fewest GPUs", gpus_of}}};
}

/// The largest size of a machine that still uses its GPUs well.
constexpr double kKneeEfficiency = 0.8;

/// "16 x perlmutter (4 nodes)", where nodes are counted.
std::string counted_text(const CapacityReport& report, SizeRow row) {
  if (!report.limits.node_hours || row.accelerators_per_node == 1) return size_text(row);
  const int nodes = row.plan.question.gpus / row.accelerators_per_node;
  return fmt::format("{} ({} node{})", size_text(row), grouped(nodes), nodes == 1 ? "" : "s");
}

/// "2,048 x dgx-h100 for 11.0 days, 538 k GPU-hours, $ 1.34 M"
std::string job_text(const CapacityReport& report, SizeRow row, std::string_view range) {
  return fmt::format("{} for {}{}, {} GPU-hours{}", counted_text(report, row),
                     duration_text(row.wall), range, count_text(row.gpu_hours),
                     row.price_usd ? fmt::format(", $ {}", count_text(*row.price_usd)) : "");
}

/// Choices that fall on one row share a line. Rows on other tokens each are not comparable.
std::string choice_lines(const CapacityReport& report) {
  std::vector<std::pair<const CapacityRow*, std::string>> lines;
  if (report.solved) return {};
  for (const Choice& choice : choices_of(report)) {
    const CapacityRow* row = report.least(choice.measure);
    // The smallest size asked about says nothing where steps may take any time.
    const bool idle = choice.measure == gpus_of && !report.limits.step_time;
    if (row == nullptr || idle) continue;
    const auto same =
        std::ranges::find_if(lines, [&](const auto& line) { return line.first == row; });
    if (same == lines.end()) {
      lines.emplace_back(row, choice.what);
    } else {
      same->second += fmt::format(", {}", choice.what);
    }
  }
  std::string text;
  for (const auto& [row, what] : lines) {
    text += fmt::format("{}: {}\n", what, job_text(report, *row, ""));
  }
  return text;
}

/// One line for all machines with several sizes.
std::string knee_line(const CapacityReport& report) {
  std::map<std::string, std::pair<const CapacityRow*, int>> knees;  // by machine: row, sizes
  for (const CapacityRow& row : report.rows) {
    if (!row.runs()) continue;
    auto& [knee, sizes] = knees[row.plan.question.hardware];
    ++sizes;
    if (row.efficiency >= kKneeEfficiency) knee = &row;
  }
  std::vector<std::string> texts;
  for (const auto& [machine, found] : knees) {
    if (found.second > 1 && found.first != nullptr) texts.push_back(size_text(*found.first));
  }
  if (texts.empty()) return {};
  return fmt::format("largest size that does {:.0f} % of the best size's work per GPU-hour: {}\n",
                     kKneeEfficiency * 100.0, fmt::join(texts, ", "));
}

/// The value of a setting; empty where there is none.
std::string word_of(const QuestionReport& question, std::string_view key) {
  const auto found = std::ranges::find(question.settings, key, &SettingReport::key);
  return found == question.settings.end() ? std::string() : found->value;
}

/// Parameters of a model that takes as many operations: 6 for a parameter and a token
/// (Kaplan et al. 2020).
double parameters_at(double parameters, double tokens, double tokens_per_parameter) {
  return std::sqrt(parameters * tokens / tokens_per_parameter);
}

std::string affordable_line(const CapacityReport& report) {
  const CapacityRow* best = report.most_affordable();
  if (best == nullptr) return {};
  const double tokens = *best->affordable_tokens;
  const QuestionReport& q = best->plan.question;
  const std::string text =
      fmt::format("within the limits: {} tokens on {}", count_text(tokens), size_text(*best));
  if (q.lora_rank || !word_of(q, "task").empty()) return text + "\n";  // of a trained network
  return fmt::format("{}; or about {} parameters trained on {} tokens each\n", text,
                     count_text(parameters_at(static_cast<double>(q.parameters), tokens,
                                              report.tokens_per_parameter)),
                     report.tokens_per_parameter);
}

std::optional<double> job_cost(SizeRow row) {
  return row.price_usd ? row.price_usd : std::optional(row.gpu_hours);
}

/// The same of a row that keeps the limits in nine of ten cases.
std::optional<double> sure_cost(SizeRow row) {
  return row.chance.value_or(1.0) >= 0.9 ? job_cost(row) : std::nullopt;
}

using Rows = std::vector<const CapacityRow*>;

/// The rows that the limits choose, of those of one machine that run: the smallest within them, the
/// cheapest, and the cheapest that is sure to be; where none is within them, the one that comes nearest. Without limits the largest
/// that uses its GPUs well, and the fastest.
Rows chosen_of(const CapacityReport& report, const Rows& rows) {
  const auto least = [](const Rows& among, CapacityMeasure measure) {
    return *std::ranges::min_element(among, {}, [&](auto* row) { return measure(*row); });
  };
  const bool limited = std::ranges::any_of(capacity_limits(), [&](const CapacityLimit& row) {
    return (report.limits.*row.limit).has_value();
  });
  Rows within, affordable, efficient;
  for (const CapacityRow* row : rows) {
    if (row->beyond.empty()) within.push_back(row);
    if (row->affordable_tokens) affordable.push_back(row);
    if (row->efficiency >= kKneeEfficiency) efficient.push_back(row);
  }
  if (!limited) return {efficient.empty() ? nullptr : efficient.back(), least(rows, wall_of)};
  if (!report.solved && !within.empty()) {
    Rows sure = within;
    std::erase_if(sure, [](const CapacityRow* row) { return !sure_cost(*row); });
    return {least(within, gpus_of), least(within, job_cost),
            sure.empty() ? nullptr : least(sure, job_cost)};
  }
  return {affordable.empty() ? least(rows, step_of) : least(affordable, fewer_tokens)};
}

/// The row that a reader in a hurry asks for: the cheapest within the limits, else the nearest.
const CapacityRow* leading_row(const CapacityReport& report) {
  if (report.solved) return report.most_affordable();
  if (const CapacityRow* best = report.least(job_cost)) return best;
  if (const CapacityRow* nearest = report.most_affordable()) return nearest;
  const auto runs = std::ranges::find_if(report.rows, &CapacityRow::runs);
  return runs == report.rows.end() ? nullptr : &*runs;
}

std::vector<CapacityRow> shown_rows(const CapacityReport& report) {
  if (report.all_sizes) return report.rows;
  std::map<std::string, Rows> by_machine;
  for (const CapacityRow& row : report.rows) {
    if (row.runs()) by_machine[row.plan.question.hardware].push_back(&row);
  }
  std::vector<CapacityRow> shown;
  for (auto& [machine, rows] : by_machine) rows = chosen_of(report, rows);
  for (const CapacityRow& row : report.rows) {
    if (!row.runs() || &row == leading_row(report) ||
        contains(by_machine.at(row.plan.question.hardware), &row)) {
      shown.push_back(row);
    }
  }
  return shown;
}

std::string limits_text(const CapacityLimits& limits) {
  std::vector<std::string> words;
  for (const CapacityLimit& row : capacity_limits()) {
    if (const auto limit = limits.*row.limit) words.push_back(row.text(*limit));
  }
  return fmt::format("{}", fmt::join(words, " and "));
}

/// "(chance 58 %); with 90 % or more: 128 x dgx-h100 for 30.5 days, ...": how surely the limits are
/// kept, and by which size more surely.
std::string chance_text(const CapacityReport& report, SizeRow row) {
  if (!row.chance) return {};
  std::string text = fmt::format(" (chance {})", share_text(*row.chance));
  if (sure_cost(row)) return text;
  const CapacityRow* sure = report.least(sure_cost);
  return text + (sure == nullptr ? "; no size keeps it with 90 %"
                                 : fmt::format("; with {}: {}", share_text(*sure->chance),
                                               job_text(report, *sure, "")));
}

/// "llama3-70b on 2 T tokens: 1,024 x dgx-h100 for 21.1 days (16.1 - 27.8 days), 519 k GPU-hours,
/// within 30 days (chance 93 %)"
std::string sentence(const CapacityReport& report) {
  const CapacityRow* row = leading_row(report);
  if (row == nullptr) return "no plan fits on any of these machines";
  const QuestionReport& q = row->plan.question;
  std::string time, tokens;  // one of them is uncertain
  (row->p10 < row->p90 ? time : tokens) = fmt::format(" ({})", range_text(*row));
  const std::string text = fmt::format("{} on {} tokens{}: {}", q.model, count_text(*q.tokens),
                                       tokens, job_text(report, *row, time));
  const std::string limits = limits_text(report.limits);
  if (limits.empty()) return report.rows.size() > 1 ? text + "; fewest of all sizes" : text;
  return text + (row->beyond.empty() ? ", within " : ", not within ") + limits +
         chance_text(report, *row);
}

/// Power and price of an accelerator of every machine: "a GPU of aws-p5: 700 W, $ 12.29 an hour".
std::string rate_line(const CapacityReport& report, const std::vector<CapacityRow>& rows) {
  std::vector<std::string> machines, texts;
  for (const CapacityRow& row : rows) {
    const QuestionReport& q = row.plan.question;
    if (!row.runs() || contains(machines, q.hardware)) continue;
    machines.push_back(q.hardware);
    std::vector<std::string> rates;
    if (q.gpu_power_watt) rates.push_back(fmt::format("{} W", *q.gpu_power_watt));
    rates.push_back(q.gpu_price_usd_per_hour
                        ? fmt::format("$ {} an hour", *q.gpu_price_usd_per_hour)
                        : "no price (--price)");
    texts.push_back(fmt::format("{} {}", q.hardware, fmt::join(rates, ", ")));
  }
  return texts.empty() ? std::string()
                       : fmt::format("a GPU ({}): {}\n",
                                     report.own_price ? "prices as given" : "of the profiles",
                                     fmt::join(texts, "; "));
}

std::string energy_line(const CapacityReport& report) {
  const bool hosts = report.host_power > 0.0;
  const bool cooling = report.pue != 1.0;
  std::string text = "energy: the accelerators at their rated power";
  if (hosts) text += fmt::format(", {} W a node beside them", report.host_power);
  if (cooling) text += fmt::format(", times {}", report.pue);
  if (hosts != cooling) text += hosts ? ", without cooling" : ", without hosts and network";
  if (!hosts && !cooling) text += ", without hosts, network and cooling";
  return text + "\n";
}

std::string question_text(const CapacityReport& report) {
  const QuestionReport& q = report.rows.front().plan.question;
  std::set<std::string> frameworks;  // chips have their own
  for (const CapacityRow& row : report.rows) frameworks.insert(framework_text(row.plan.question));
  const std::int64_t last = report.rows.back().plan.question.global_batch;
  const std::string routing = word_of(q, "routing");
  return fmt::format("{}, batch {}{} x {}, {}, {}{}", q.model, q.global_batch,
                     last == q.global_batch ? "" : fmt::format(" to {}", last), q.seq_len,
                     q.precision, fmt::join(frameworks, " / "),
                     routing.empty() ? "" : fmt::format(", experts {} (--routing)", routing));
}

/// Hints on the rows that are shown.
std::string advice_lines(const std::vector<CapacityRow>& rows) {
  std::string text;
  for (const CapacityRow& row : rows) {
    if (row.plan.advice.empty()) continue;
    text += fmt::format("hint: {}: {}\n", size_text(row), row.plan.advice);
  }
  return text;
}

std::string table_text(const CapacityReport& report, int columns) {
  const std::vector<CapacityRow> rows = shown_rows(report);
  const TextTable table = table_of(columns_of_rows(), rows);
  std::string text = sentence(report) + "\n\n" + question_text(report) + "\n" + table.text(columns);
  text +=
      fmt::format("time: with failures, checkpoints and restarts{}{}{}{}{}\n",
                  table.shows("p10 - p90", columns) ? "; p10 - p90: 80 % of outcomes" : "",
                  report.solved && table.shows("p10 - p90", columns) ? ", of tokens" : "",
                  table.shows("chance", columns) ? "; chance: of keeping the limits" : "",
                  table.shows("trains on", columns) ? "; trains on: tokens within the limits" : "",
                  rows.size() < report.rows.size() ? "; --sizes shows every size" : "");
  if (table.shows("energy", columns)) text += energy_line(report);
  text += rate_line(report, rows) + advice_lines(rows) + "\n" + choice_lines(report) +
          knee_line(report) + affordable_line(report);
  if (const CapacityRow* row = leading_row(report)) text += goodput_line(*row);
  return wrapped(text + "\n" + evidence_text(report.evidence) + "\n", columns);
}

Json row_json(SizeRow row) {
  Json json = object_of(columns_of_rows(), row);
  json["goodput_parts"] = row.runs() ? goodput_json(*row.plan.goodput) : Json(nullptr);
  json["plan"] = row.runs() ? plan_json(row.plan.question, *row.plan.plan) : Json(nullptr);
  return json;
}

Json choices_json(const CapacityReport& report) {
  Json json = Json::object();
  for (const Choice& choice : choices_of(report)) {
    const CapacityRow* row = report.solved ? nullptr : report.least(choice.measure);
    json[choice.key] = row == nullptr ? Json(nullptr) : Json(row - report.rows.data());
  }
  return json;
}

}  // namespace

std::string duration_text(Seconds time) {
  const Cell cell(time);
  return spelled({&cell}).front();
}

std::string size_text(const CapacityRow& row) {
  return fmt::format("{} x {}", grouped(row.plan.question.gpus), row.plan.question.hardware);
}

std::span<const CapacityLimit> capacity_limits() {
  using L = CapacityLimits;
  static constexpr CapacityLimit kLimits[]{
      {"deadline_s", "deadline", &L::deadline, wall_of,
       [](double limit) { return duration_text(Seconds(limit)); }},
      {"step_time_s", "step time", &L::step_time, step_of,
       [](double limit) { return to_text(Seconds(limit)) + " a step"; }},
      {"gpu_hours", "GPU-hours", &L::gpu_hours, gpu_hours_of,
       [](double limit) { return count_text(limit) + " GPU-hours"; }},
      {"node_hours", "node-hours", &L::node_hours,
       [](SizeRow row) { return std::optional(row.gpu_hours / row.accelerators_per_node); },
       [](double limit) { return count_text(limit) + " node-hours"; }},
      {"energy_j", "energy", &L::energy_joule, energy_of,
       [](double limit) { return fmt::format("{:.3g} MWh", limit / 3.6e9); }},
      {"price_usd", "price", &L::price_usd, price_of,
       [](double limit) { return fmt::format("$ {}", count_text(limit)); }}};
  return kLimits;
}

const CapacityRow* CapacityReport::most_affordable() const {
  constexpr double kEqual = 0.99;
  const CapacityRow* best = least(fewer_tokens, false);
  if (best == nullptr) return best;
  const double enough = kEqual * *best->affordable_tokens;
  const auto pace = [](SizeRow row) { return row.wall / *row.plan.question.tokens; };
  for (const CapacityRow& row : rows) {
    if (row.affordable_tokens >= enough && pace(row) < pace(*best)) best = &row;
  }
  return best;
}

const CapacityRow* CapacityReport::least(CapacityMeasure measure, bool within) const {
  const CapacityRow* best = nullptr;
  for (const CapacityRow& row : rows) {
    if (!row.runs() || (within && !row.beyond.empty()) || !measure(row)) continue;
    if (best == nullptr || *measure(row) < *measure(*best)) best = &row;
  }
  return best;
}

std::string capacity_page(const CapacityReport& report) {
  page::TablesPage made;
  made.title = sentence(report);
  made.line = question_text(report);
  if (const CapacityRow* row = leading_row(report)) {
    made.facts.emplace_back(duration_text(row->wall), range_text(*row));
    if (row->price_usd)
      made.facts.emplace_back(fmt::format("$ {}", count_text(*row->price_usd)), "");
    made.facts.emplace_back(size_text(*row), short_plan(row->plan.plan->plan));
    made.facts.emplace_back(count_text(row->gpu_hours), "GPU-hours");
    if (row->chance) made.facts.emplace_back(share_text(*row->chance), "chance of the limits");
    made.facts.emplace_back(risk_text(*row->plan.plan), "risk of running out of memory");
    made.facts.emplace_back(share_text(row->plan.goodput->share),
                            "of the time it trains (goodput)");
    made.lines.push_back(goodput_line(*row));
  }
  const auto add = [&](const std::string& title, const std::vector<CapacityRow>& rows) {
    made.tables.push_back({title, table_of(columns_of_rows(), rows)});
  };
  const std::vector<CapacityRow> rows = shown_rows(report);
  add("Machines", rows);
  if (rows.size() < report.rows.size()) add("Every size", report.rows);
  for (std::string text : {advice_lines(rows), choice_lines(report), knee_line(report),
                           affordable_line(report), energy_line(report), rate_line(report, rows)}) {
    if (!text.empty()) made.lines.push_back(std::move(text));
  }
  made.evidence = report.evidence;
  return page::tables_page(made);
}

std::string render_capacity(const CapacityReport& report, Format format, int columns) {
  Json limits = Json::object();
  for (const CapacityLimit& row : capacity_limits()) {
    limits[std::string(row.key)] = or_null(report.limits.*row.limit);
  }
  Answer answer{{{"schema", "plansearch/capacity/v1"},
                 {"question", identity_json(report.rows.front().plan.question)},
                 {"tokens", *report.rows.front().plan.question.tokens},
                 {"limits", std::move(limits)},
                 {"rows", array_of(report.rows, row_json)},
                 {"choices", choices_json(report)},
                 {"reliability", reliability_json(report.reliability)},
                 {"evidence", report.evidence}},
                objects_of(columns_of_rows(), report.rows)};
  for (Json& row : answer.document["rows"]) require_finite(row);
  return render_answer(answer, format, [&] { return table_text(report, columns); });
}

}  // namespace plansearch
