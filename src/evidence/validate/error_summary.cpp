// SPDX-License-Identifier: Apache-2.0
// Computes: Kendall's tau-b; mean, median, p90 and bias of errors.
// Source: Kendall 1945 (tau-b with ties).
// Assumes: nothing of how values are distributed.
// Units: ratios.
// Checked by: tests/unit/evidence/error_summary_test.cpp
#include "evidence/validate/error_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/names.hpp"

namespace plansearch {
namespace {

using Errors = const ErrorSummary&;

/// A ratio, of which `scaled` gives a multiple: null and a dash without rows, in tables a
/// percentage.
Column<ErrorSummary> ratio_column(const char* key, const char* title,
                                  double (*scaled)(Errors, double), const char* format) {
  const auto ratio = [=](Errors e) {
    return e.rows == 0 ? std::nullopt : std::optional(scaled(e, 1.0));
  };
  return {key, ratio, {title}, [=](Errors e) {
            return e.rows == 0 ? "-" : fmt::format(fmt::runtime(format), scaled(e, 100.0));
          }};
}

}  // namespace

std::optional<double> kendall_tau(std::span<const double> a, std::span<const double> b) {
  double concordance = 0.0;
  double untied_a = 0.0;
  double untied_b = 0.0;
  const auto sign = [](double x) { return static_cast<double>((x > 0.0) - (x < 0.0)); };
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = i + 1; j < a.size(); ++j) {
      const double da = sign(a[i] - a[j]);
      const double db = sign(b[i] - b[j]);
      concordance += da * db;
      untied_a += std::abs(da);
      untied_b += std::abs(db);
    }
  }
  if (untied_a == 0.0 || untied_b == 0.0) return std::nullopt;
  return concordance / std::sqrt(untied_a * untied_b);
}

ErrorSummary summarise_errors(std::span<const double> relative_errors) {
  ErrorSummary summary;
  summary.rows = relative_errors.size();
  if (relative_errors.empty()) return summary;
  std::vector<double> absolute;
  for (const double error : relative_errors) absolute.push_back(std::abs(error));
  std::ranges::sort(absolute);
  summary.mean = mean(absolute);
  summary.median = quantile(absolute, 0.5);
  summary.p90 = quantile(absolute, 0.9);
  summary.bias = mean(relative_errors);
  return summary;
}

const Columns<ErrorSummary>& error_columns() {
  static const Columns<ErrorSummary> kColumns{
      {"rows", &ErrorSummary::rows, {"rows"}},
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
