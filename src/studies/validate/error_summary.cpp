// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/error_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/names.hpp"
#include "studies/validate/statistics.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;
using Errors = const ErrorSummary&;

/// A ratio, of which `scaled` gives a multiple: null and a dash without rows, in tables a
/// percentage.
Column<ErrorSummary> ratio_column(const char* key, const char* title,
                                  double (*scaled)(Errors, double), const char* format) {
  return {key,
          [=](Errors e) { return e.rows == 0 ? Json(nullptr) : Json(scaled(e, 1.0)); },
          {title},
          [=](Errors e) {
            return e.rows == 0 ? "-" : fmt::format(fmt::runtime(format), scaled(e, 100.0));
          }};
}

}  // namespace

ErrorSummary summarise_errors(std::span<const double> relative_errors) {
  ErrorSummary summary;
  summary.rows = relative_errors.size();
  if (relative_errors.empty()) return summary;
  std::vector<double> absolute;
  for (const double error : relative_errors) absolute.push_back(std::abs(error));
  std::sort(absolute.begin(), absolute.end());
  summary.mean = mean(absolute);
  summary.median = quantile(absolute, 0.5);
  summary.p90 = quantile(absolute, 0.9);
  summary.bias = mean(relative_errors);
  return summary;
}

const Columns<ErrorSummary>& error_columns() {
  static const Columns<ErrorSummary> kColumns{
      {"rows",
       [](Errors e) { return Json(e.rows); },
       {"rows"},
       [](Errors e) { return fmt::format("{}", e.rows); }},
      ratio_column(
          "mean_absolute_error", "mean", [](Errors e, double by) { return by * e.mean; }, "{:.1f}"),
      ratio_column(
          "median_absolute_error", "median", [](Errors e, double by) { return by * e.median; },
          "{:.1f}"),
      ratio_column(
          "p90_absolute_error", "p90", [](Errors e, double by) { return by * e.p90; }, "{:.1f}"),
      ratio_column(
          "bias", "bias", [](Errors e, double by) { return by * e.bias; }, "{:+.1f}")};
  return kColumns;
}

const Columns<ErrorSummary>& time_error_columns() {
  static const Columns<ErrorSummary> kColumns = [] {
    Columns<ErrorSummary> columns = error_columns();
    columns.push_back(ratio_column(
        "within_p10_p90", "inside",
        [](Errors e, double by) {
          return by * static_cast<double>(e.within) / static_cast<double>(e.rows);
        },
        "{:.0f}"));
    return columns;
  }();
  return kColumns;
}

std::vector<RowGroup> grouped(
    std::span<const std::size_t> rows,
    const std::function<std::vector<std::string>(std::size_t)>& values_of) {
  std::vector<RowGroup> groups;
  std::map<std::string, std::size_t> place;
  for (const std::size_t row : rows) {
    for (const std::string& value : values_of(row)) {
      const auto [found, added] = place.emplace(value, groups.size());
      if (added) groups.push_back({value, {}});
      groups[found->second].rows.push_back(row);
    }
  }
  return groups;
}

std::optional<std::string> joined_cells(const CellsByColumn& cells, const std::string& columns) {
  std::string value;
  for (const std::string& column : split(columns, "+")) {
    const auto cell = cells.find(column);
    if (cell == cells.end()) return std::nullopt;
    if (!value.empty()) value += ", ";
    value += cell->second;
  }
  return value;
}

std::string shortened(const std::string& value) {
  constexpr std::size_t kWidest = 46;
  if (value.empty()) return "(empty)";
  return value.size() <= kWidest ? value : value.substr(0, kWidest - 3) + "...";
}

}  // namespace plansearch
