// SPDX-License-Identifier: Apache-2.0
#include "report/capacity.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "report/columns.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"
#include "report/text_table.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;
using SizeRow = const CapacityRow&;

/// A result; "-" and null where the row has no plan.
Column<CapacityRow> result(std::string_view key, std::function<Json(SizeRow)> value,
                           TextColumn title = {}, std::function<Cell(SizeRow)> cell = {}) {
  return {.key = key,
          .value = [value](SizeRow r) { return r.runs() ? value(r) : Json(nullptr); },
          .title = std::move(title),
          .cell = [cell](SizeRow r) { return r.runs() ? cell(r) : Cell("-"); }};
}

const Columns<CapacityRow>& columns_of_rows() {
  static const Columns<CapacityRow> kColumns{
      {"hardware", [](SizeRow r) { return r.plan.question.hardware; }, {"hardware", Align::Left}},
      {"gpus",
       [](SizeRow r) { return r.plan.question.gpus; },
       {"GPUs"},
       [](SizeRow r) { return grouped(r.plan.question.gpus); }},
      result(
          "step_time_s", [](SizeRow r) { return r.plan.plan->estimate.step.total().value(); },
          {"step", Align::Right, 3},
          [](SizeRow r) { return Cell(r.plan.plan->estimate.step.total()); }),
      result(
          "mfu", [](SizeRow r) { return r.plan.plan->mfu; }, {"MFU", Align::Right, 5},
          [](SizeRow r) { return share_text(r.plan.plan->mfu); }),
      result(
          "goodput", [](SizeRow r) { return r.plan.goodput->share; }, {"goodput"},
          [](SizeRow r) { return share_text(r.plan.goodput->share); }),
      result(
          "wall_s", [](SizeRow r) { return r.wall.value(); }, {"time"},
          [](SizeRow r) { return Cell(r.wall); }),
      result(
          "wall_p10_s", [](SizeRow r) { return r.p10.value(); }, {"p10 - p90", Align::Right, 1},
          [](SizeRow r) { return range_cell(r.p10, r.p90); }),
      result("wall_p90_s", [](SizeRow r) { return r.p90.value(); }),
      result(
          "gpu_hours", [](SizeRow r) { return r.gpu_hours; }, {"GPU-hours"},
          [](SizeRow r) { return count_cell(r.gpu_hours); }),
      result(
          "energy_j", [](SizeRow r) { return or_null(r.energy_joule); },
          {"energy", Align::Right, 2}, [](SizeRow r) { return energy_cell(r.energy_joule); }),
      result(
          "price_usd", [](SizeRow r) { return or_null(r.price_usd); }, {"price"},
          [](SizeRow r) { return price_cell(r.price_usd); }),
      result(
          "efficiency", [](SizeRow r) { return r.efficiency; }, {"efficiency", Align::Right, 4},
          [](SizeRow r) { return share_text(r.efficiency); }),
      {.key = {},
       .title = {"trains on", Align::Right, 2},
       .cell =
           [](SizeRow r) {
             return r.affordable_tokens ? count_cell(*r.affordable_tokens) : Cell("-");
           }},
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
      result("affordable_tokens", [](SizeRow r) { return or_null(r.affordable_tokens); })};
  return kColumns;
}

Json goodput_json(const Goodput& goodput) {
  return {{"share", goodput.share},
          {"share_p10", goodput.p10},
          {"share_p90", goodput.p90},
          {"mtbf_s", goodput.mtbf.value()},
          {"checkpoint_bytes", whole_bytes(goodput.checkpoint)},
          {"write_s", goodput.write.value()},
          {"interval_s", goodput.interval.value()},
          {"spare_nodes", goodput.spare_nodes},
          {"gpu_mtbf_s", goodput.rests_on.gpu_mtbf.value()},
          {"restart_s", goodput.rests_on.restart.value()}};
}

std::optional<double> gpus_of(SizeRow row) {
  return row.plan.question.gpus;
}

struct Choice {
  const char* key;
  const char* what;
  std::optional<double> (*measure)(SizeRow row);
};
/// By price where every row has one: GPU-hours of different machines are not comparable.
std::array<Choice, 4> choices_of(const CapacityReport& report) {
  const auto priced = [](SizeRow row) { return !row.runs() || row.price_usd.has_value(); };
  const bool all = std::ranges::all_of(report.rows, priced);
  using Value = std::optional<double>;
  return {{{"fastest", "fastest", [](SizeRow row) -> Value { return row.wall.value(); }},
           all ? Choice{"cheapest", "cheapest", [](SizeRow row) { return row.price_usd; }}
               : Choice{"cheapest", "fewest GPU-hours",
                        [](SizeRow row) -> Value { return row.gpu_hours; }},
           {"least_energy", "least energy", [](SizeRow row) { return row.energy_joule; }},
           {"fewest_gpus", "fewest GPUs", gpus_of}}};
}

/// The largest size of a machine that still uses its GPUs well.
constexpr double kKneeEfficiency = 0.8;

std::string size_text(SizeRow row) {
  return fmt::format("{} x {}", grouped(row.plan.question.gpus), row.plan.question.hardware);
}

/// Choices that fall on one row share a line.
std::string choice_lines(const CapacityReport& report) {
  std::vector<std::pair<const CapacityRow*, std::string>> lines;
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
    text += fmt::format("{}: {}, {}, {} GPU-hours{}\n", what, size_text(*row),
                        duration_text(row->wall), count_text(row->gpu_hours),
                        row->price_usd ? fmt::format(", $ {}", count_text(*row->price_usd)) : "");
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

/// The row that trains on most tokens within the limits.
const CapacityRow* most_affordable(const CapacityReport& report) {
  const CapacityRow* best = nullptr;
  for (const CapacityRow& row : report.rows) {
    if (!row.affordable_tokens) continue;
    if (best == nullptr || *row.affordable_tokens > *best->affordable_tokens) best = &row;
  }
  return best;
}

/// Parameters of a model that takes as many operations: 6 for a parameter and a token
/// (Kaplan et al. 2020).
double parameters_at(double parameters, double tokens, double tokens_per_parameter) {
  return std::sqrt(parameters * tokens / tokens_per_parameter);
}

std::string affordable_line(const CapacityReport& report) {
  const CapacityRow* best = most_affordable(report);
  if (best == nullptr) return {};
  const double tokens = *best->affordable_tokens;
  return fmt::format(
      "within the limits: {} tokens on {}; or about {} parameters trained on {} tokens each\n",
      count_text(tokens), size_text(*best),
      count_text(parameters_at(static_cast<double>(best->plan.question.parameters), tokens,
                               report.tokens_per_parameter)),
      report.tokens_per_parameter);
}

/// "one in 38 k hours of a GPU, as BLOOM on 384 A100 had it"
std::string rate_text(const Reliability& rests) {
  const std::string rate =
      fmt::format("one in {} hours of a GPU", count_text(rests.gpu_mtbf.value() / 3600.0));
  if (rests.records.empty()) return rate;
  if (rests.records.size() == 1) return rate + ", as published of " + rests.records.front().name;
  return fmt::format("{}, from {} published records", rate, rests.records.size());
}

std::string goodput_line(SizeRow row) {
  const Goodput& goodput = *row.plan.goodput;
  return fmt::format(
      "goodput on {}: an interruption every {} ({}; {} to restart), "
      "checkpoints of {} written in {} every {}; spares for 95 % of the time: {} "
      "node{}\n",
      size_text(row), duration_text(goodput.mtbf), rate_text(goodput.rests_on),
      duration_text(goodput.rests_on.restart), to_text(goodput.checkpoint),
      duration_text(goodput.write), duration_text(goodput.interval), goodput.spare_nodes,
      goodput.spare_nodes == 1 ? "" : "s");
}

/// The last row with a plan of every machine, in the order of the rows.
std::vector<const CapacityRow*> largest_of_machines(const CapacityReport& report) {
  std::vector<const CapacityRow*> largest;
  for (auto row = report.rows.begin(); row != report.rows.end(); ++row) {
    const bool last = std::none_of(row + 1, report.rows.end(), [&](SizeRow later) {
      return later.runs() && later.plan.question.hardware == row->plan.question.hardware;
    });
    if (row->runs() && last) largest.push_back(&*row);
  }
  return largest;
}

std::string goodput_lines(const CapacityReport& report) {
  std::string text;
  for (const CapacityRow* row : largest_of_machines(report)) text += goodput_line(*row);
  return text;
}

/// Power and price of an accelerator of every machine: "a GPU of aws-p5: 700 W, $ 12.29 an hour".
std::string rate_lines(const CapacityReport& report) {
  std::string text;
  for (const CapacityRow* row : largest_of_machines(report)) {
    const QuestionReport& q = row->plan.question;
    std::vector<std::string> rates;
    if (q.gpu_power_watt) rates.push_back(fmt::format("{} W", *q.gpu_power_watt));
    if (q.gpu_price_usd_per_hour) {
      rates.push_back(fmt::format("$ {} an hour", *q.gpu_price_usd_per_hour));
    }
    if (rates.empty()) continue;
    text += fmt::format(
        "a GPU of {}: {} ({})\n", q.hardware, fmt::join(rates, ", "),
        report.own_price && q.gpu_price_usd_per_hour ? "price as given" : "its profile");
  }
  return text;
}

std::string energy_line(const CapacityReport& report) {
  const bool hosts = report.host_power > 0.0;
  const bool cooling = report.pue != 1.0;
  std::string text = "energy: the accelerators at their rated power";
  if (hosts) text += fmt::format(", {} W a node beside them", report.host_power);
  if (cooling) text += fmt::format(", times {}", report.pue);
  if (!hosts || !cooling) {
    text += fmt::format(", without {}", hosts     ? "cooling"
                                        : cooling ? "hosts and network"
                                                  : "hosts, network and cooling");
  }
  return text + "\n";
}

std::string table_text(const CapacityReport& report, int columns) {
  const QuestionReport& q = report.rows.front().plan.question;
  std::string text =
      fmt::format("{} on {} tokens, batch {} x {}, {}, {}\n\n", q.model, count_text(*q.tokens),
                  q.global_batch, q.seq_len, q.precision, framework_text(q));
  const TextTable table = table_of(columns_of_rows(), report.rows);
  text += table.text(columns);
  text += fmt::format("time: with failures, checkpoints and restarts{}\n",
                      table.shows("p10 - p90", columns) ? "; p10 - p90: 80 % of outcomes" : "");
  if (table.shows("trains on", columns)) text += "trains on: tokens within the limits\n";
  if (table.shows("energy", columns)) text += energy_line(report);
  if (table.shows("energy", columns) || table.shows("price", columns)) text += rate_lines(report);
  text += "\n" + choice_lines(report) + knee_line(report) + affordable_line(report) +
          goodput_lines(report);
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
    const CapacityRow* row = report.least(choice.measure);
    json[choice.key] = row == nullptr ? Json(nullptr) : Json(row - report.rows.data());
  }
  return json;
}

Json reliability_json(const Reliability& reliability) {
  Json json{{"gpu_mtbf_s", reliability.gpu_mtbf.value()},
            {"spread", reliability.spread},
            {"restart_s", reliability.restart.value()},
            {"repair_s", reliability.repair.value()},
            {"storage_bytes_per_s_per_node", reliability.storage_per_node.value()},
            {"records", Json::array()}};
  for (const ReliabilityRecord& record : reliability.records) {
    json["records"].push_back({{"name", record.name},
                               {"gpu_mtbf_s", record.gpu_mtbf().value()},
                               {"source", record.source}});
  }
  return json;
}

}  // namespace

std::string duration_text(Seconds time) {
  const Cell cell(time);
  return spelled({&cell}).front();
}

const CapacityRow* CapacityReport::least(
    std::optional<double> (*measure)(const CapacityRow& row)) const {
  const CapacityRow* best = nullptr;
  for (const CapacityRow& row : rows) {
    if (!row.runs() || !row.beyond.empty() || !measure(row)) continue;
    if (best == nullptr || *measure(row) < *measure(*best)) best = &row;
  }
  return best;
}

std::string render_capacity(const CapacityReport& report, Format format, int columns) {
  const CapacityLimits& limits = report.limits;
  Answer answer{{{"schema", "plansearch/capacity/v1"},
                 {"question", identity_json(report.rows.front().plan.question)},
                 {"tokens", *report.rows.front().plan.question.tokens},
                 {"limits",
                  {{"deadline_s", or_null(limits.deadline)},
                   {"step_time_s", or_null(limits.step_time)},
                   {"gpu_hours", or_null(limits.gpu_hours)},
                   {"node_hours", or_null(limits.node_hours)},
                   {"energy_j", or_null(limits.energy_joule)},
                   {"price_usd", or_null(limits.price_usd)}}},
                 {"rows", array_of(report.rows, row_json)},
                 {"choices", choices_json(report)},
                 {"reliability", reliability_json(report.reliability)},
                 {"evidence", report.evidence}},
                objects_of(columns_of_rows(), report.rows)};
  for (Json& row : answer.document["rows"]) require_finite(row);
  return render_answer(answer, format, [&] { return table_text(report, columns); });
}

}  // namespace plansearch
