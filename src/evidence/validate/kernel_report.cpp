// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/names.hpp"
#include "evidence/validate/kernel_validation.hpp"
#include "report/columns.hpp"

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
    case TableKind::Stream:
      return {"gpu", "gpu+pass"};
    case TableKind::Runs:
      break;
  }
  return {};
}

KernelGroup summarise(const std::string& by, const RowGroup& group,
                      const std::vector<KernelRow>& rows) {
  KernelGroup summary{by, group.value, 0, {}};
  std::vector<double> errors;
  for (const std::size_t row : group.rows) {
    const auto& [predicted, measured] = std::pair(rows[row].predicted, rows[row].measured);
    if (predicted && measured) {
      errors.push_back(*predicted / *measured - 1.0);
    } else {
      ++summary.inexpressible;
    }
  }
  summary.errors = summarise_errors(errors);
  return summary;
}

/// As the table wrote it: digits that only the change of units brought are dropped.
double in_microseconds(Seconds time) {
  return std::stod(fmt::format("{:.12g}", time.value() * 1e6));
}

Json microseconds(const std::optional<Seconds>& time) {
  return time ? Json(in_microseconds(*time)) : Json(nullptr);
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

std::string render_table(const KernelReport& report, int columns) {
  std::vector<TextColumn> titles{
      {fmt::format("{} TIME, error in %", upper(to_text(report.kind))), Align::Left}};
  for (const auto& column : error_columns()) titles.push_back(column.title);
  titles.push_back({"inexpressible"});
  TextTable table(std::move(titles));
  std::string by;
  for (const KernelGroup& group : report.groups) {
    const bool all = group.by == "all";
    if (!all && group.errors.rows == 0) continue;  // the reasons below count them
    if (!all && group.by != by) {
      by = group.by;
      table.add_row({"by " + by, "", "", "", "", "", ""});
    }
    std::vector<Cell> cells{all ? "all" : "  " + shortened(group.value)};
    for (const auto& column : error_columns()) cells.push_back(column.cell(group.errors));
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
  json["reason"] = or_null(row.reason);
  return json;
}

/// Numbers as short as they are.
Json csv_row(const KernelRow& row) {
  const auto cell = [](const std::optional<Seconds>& time) {
    return time ? fmt::format("{}", in_microseconds(*time)) : "";
  };
  return {{"row", row.line},
          {"measured_us", cell(row.measured)},
          {"predicted_us", cell(row.predicted)},
          {"reason", row.reason}};
}

}  // namespace

void require_kernel_columns(const io::CsvTable& table, const std::string& columns) {
  for (const std::string& column : split(columns, "+")) {
    const TableKind kind = recognise_table(table);
    const bool derived = (column == "shape" && kind == TableKind::Matmul) ||
                         (column == "parts" && kind == TableKind::Concurrency);
    if (!derived) table.require(column);
  }
}

KernelReport report_kernels(TableKind kind, std::vector<KernelRow> rows,
                            const std::vector<std::string>& by) {
  KernelReport report{kind, std::move(rows), {}};
  std::vector<std::size_t> all(report.rows.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  report.groups.push_back(summarise("all", {"", all}, report.rows));
  for (const std::string& columns : by.empty() ? default_groups(kind) : by) {
    for (const RowGroup& group : grouped(all, [&](std::size_t row) -> std::vector<std::string> {
           const auto value = joined_cells(report.rows[row].cells, columns);
           return value ? std::vector{*value} : std::vector<std::string>{};
         })) {
      report.groups.push_back(summarise(columns, group, report.rows));
    }
  }
  return report;
}

std::string render_kernels(const KernelReport& report, Format format, int columns) {
  Json rows = Json::array();
  Json csv = Json::array();
  for (const KernelRow& row : report.rows) {
    rows.push_back(row_json(row));
    csv.push_back(csv_row(row));
  }
  Json summary = array_of(report.groups, [&](const KernelGroup& group) -> Json {
    return {{"by", group.by},
            {"value", group.by == "all" ? Json(nullptr) : Json(group.value)},
            {"inexpressible", group.inexpressible},
            {"time", object_of(error_columns(), group.errors)}};
  });
  const Answer answer{{{"schema", "plansearch/validate/v1"},
                       {"table", to_text(report.kind)},
                       {"rows", std::move(rows)},
                       {"summary", std::move(summary)}},
                      std::move(csv),
                      1};
  return render_answer(answer, format,
                       [&] { return wrapped(render_table(report, columns), columns); });
}

}  // namespace plansearch
