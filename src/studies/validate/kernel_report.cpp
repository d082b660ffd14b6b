// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "report/csv_text.hpp"
#include "report/json_text.hpp"
#include "report/text_table.hpp"
#include "studies/validate/kernel_validation.hpp"
#include "studies/validate/run_groups.hpp"
#include "studies/validate/summary_json.hpp"
#include "studies/validate/summary_text.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> default_groups(TableKind kind) {
  switch (kind) {
    case TableKind::Matmul:
      return {"gpu+dtype", "dtype+shape", "gpu+dtype+shape"};
    case TableKind::Attention:
      return {"gpu", "gpu+head_dim"};
    case TableKind::Collective:
      return {"gpu", "hw", "system", "collective+ranks", "gpu+collective+ranks"};
    case TableKind::Concurrency:
      return {"gpu", "parts", "gpu+parts"};
    case TableKind::Runs:
      break;
  }
  return {};
}

/// The cells of the columns joined by '+'; nothing when the table lacks one of them.
std::optional<std::string> joined(const KernelRow& row, const std::string& columns) {
  std::string value;
  for (const std::string& column : split_columns(columns)) {
    const auto cell = row.cells.find(column);
    if (cell == row.cells.end()) return std::nullopt;
    if (!value.empty()) value += ", ";
    value += cell->second;
  }
  return value;
}

KernelGroup summarise(std::string by, std::string value,
                      const std::vector<const KernelRow*>& rows) {
  KernelGroup group{std::move(by), std::move(value), 0, {}};
  std::vector<double> errors;
  for (const KernelRow* row : rows) {
    if (row->predicted && row->measured) {
      errors.push_back(*row->predicted / *row->measured - 1.0);
    } else {
      ++group.inexpressible;
    }
  }
  group.errors = summarise_errors(errors);
  return group;
}

void add_groups(const std::vector<KernelRow>& rows, const std::string& by,
                std::vector<KernelGroup>& groups) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const KernelRow*>> members;
  for (const KernelRow& row : rows) {
    const auto value = joined(row, by);
    if (!value) continue;
    if (!members.contains(*value)) order.push_back(*value);
    members[*value].push_back(&row);
  }
  for (const std::string& value : order) groups.push_back(summarise(by, value, members[value]));
}

/// As the table wrote it: digits that only the change of units brought are dropped.
double in_microseconds(Seconds time) {
  return std::stod(fmt::format("{:.12g}", time.value() * 1e6));
}

Json microseconds(const std::optional<Seconds>& time) {
  if (!time) return nullptr;
  return in_microseconds(*time);
}

std::string cell(const std::optional<Seconds>& time) {
  return time ? fmt::format("{}", in_microseconds(*time)) : "";
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

std::string render_table(const KernelReport& report, int columns) {
  TextTable table({{fmt::format("{} TIME, error in %", upper(to_text(report.kind))), Align::Left},
                   {"rows"},
                   {"mean"},
                   {"median"},
                   {"p90"},
                   {"bias"},
                   {"inexpressible"}});
  std::string by;
  for (const KernelGroup& group : report.groups) {
    const bool all = group.by == "all";
    if (!all && group.errors.rows == 0) continue;  // the reasons below count them
    if (!all && group.by != by) {
      by = group.by;
      table.add_row({"by " + by, "", "", "", "", "", ""});
    }
    std::vector<Cell> cells{all ? "all" : "  " + shortened(group.value)};
    for (std::string& cell : error_cells(group.errors)) cells.push_back(std::move(cell));
    cells.push_back(fmt::format("{}", group.inexpressible));
    table.add_row(std::move(cells));
  }
  std::map<std::string, std::size_t> reasons;
  for (const KernelRow& row : report.rows) {
    if (!row.reason.empty()) ++reasons[row.reason];
  }
  std::string text = table.text(columns);
  if (!reasons.empty()) text += "\nROWS THAT CANNOT BE EXPRESSED, by reason\n";
  for (const auto& [reason, rows] : reasons) {
    text += fmt::format("  {} ({} {})\n", reason, rows, rows == 1 ? "row" : "rows");
  }
  return text +
         "\n  mean, median, p90  of |predicted / measured - 1| of the time of one call, in %\n"
         "  bias               mean of predicted / measured - 1, in %: below zero, too fast\n";
}

Json row_json(const KernelRow& row) {
  Json json{{"row", row.line}};
  for (const char* key : {"gpu", "hw", "system", "dtype", "collective", "parts"}) {
    if (const auto cell = row.cells.find(key); cell != row.cells.end()) json[key] = cell->second;
  }
  json["measured_us"] = microseconds(row.measured);
  json["predicted_us"] = microseconds(row.predicted);
  json["reason"] = row.reason.empty() ? Json(nullptr) : Json(row.reason);
  return json;
}

Json report_json(const KernelReport& report) {
  Json rows = Json::array();
  for (const KernelRow& row : report.rows) rows.push_back(row_json(row));
  Json summary = Json::array();
  for (const KernelGroup& group : report.groups) {
    summary.push_back({{"by", group.by},
                       {"value", group.by == "all" ? Json(nullptr) : Json(group.value)},
                       {"inexpressible", group.inexpressible},
                       {"time", errors_json(group.errors)}});
  }
  return {{"schema", "plansearch/validate/v1"},
          {"table", to_text(report.kind)},
          {"rows", std::move(rows)},
          {"summary", std::move(summary)}};
}

std::string render_lines(const KernelReport& report) {
  std::string lines;
  for (const KernelRow& row : report.rows) lines.append(json_text(row_json(row))).append(1, '\n');
  return lines;
}

std::string render_csv(const KernelReport& report) {
  std::string out = "row,measured_us,predicted_us,reason\n";
  for (const KernelRow& row : report.rows) {
    CsvLine line;
    line.add(fmt::format("{}", row.line));
    line.add(cell(row.measured));
    line.add(cell(row.predicted));
    line.add(row.reason);
    out += line.text();
  }
  return out;
}

}  // namespace

void require_kernel_columns(const io::CsvTable& table, const std::string& columns) {
  for (const std::string& column : split_columns(columns)) {
    const TableKind kind = recognise_table(table);
    const bool derived = (column == "shape" && kind == TableKind::Matmul) ||
                         (column == "parts" && kind == TableKind::Concurrency);
    if (!derived) table.require(column);
  }
}

KernelReport report_kernels(TableKind kind, std::vector<KernelRow> rows,
                            const std::vector<std::string>& by) {
  KernelReport report{kind, std::move(rows), {}};
  std::vector<const KernelRow*> all;
  for (const KernelRow& row : report.rows) all.push_back(&row);
  report.groups.push_back(summarise("all", "", all));
  for (const std::string& columns : by.empty() ? default_groups(kind) : by) {
    add_groups(report.rows, columns, report.groups);
  }
  return report;
}

std::string render_kernels(const KernelReport& report, Format format, int columns) {
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
  return wrapped(render_table(report, columns), columns);
}

}  // namespace plansearch
