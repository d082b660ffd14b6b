// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/error_columns.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

Column<ErrorSummary> column(const char* key, const char* title, double ErrorSummary::*value,
                            std::string (*cell)(double)) {
  return {key,
          [=](const ErrorSummary& e) { return if_any(e.rows, e.*value); },
          {title},
          [=](const ErrorSummary& e) { return e.rows == 0 ? "-" : cell(e.*value); }};
}

double share_within(const ErrorSummary& e) {
  return static_cast<double>(e.within) / static_cast<double>(std::max<std::size_t>(1, e.rows));
}

}  // namespace

const Columns<ErrorSummary>& error_columns() {
  static const Columns<ErrorSummary> kColumns{
      {"rows",
       [](const ErrorSummary& e) { return Json(e.rows); },
       {"rows"},
       [](const ErrorSummary& e) { return fmt::format("{}", e.rows); }},
      column("mean_absolute_error", "mean", &ErrorSummary::mean, percent_cell),
      column("median_absolute_error", "median", &ErrorSummary::median, percent_cell),
      column("p90_absolute_error", "p90", &ErrorSummary::p90, percent_cell),
      column("bias", "bias", &ErrorSummary::bias, bias_cell)};
  return kColumns;
}

const Columns<ErrorSummary>& time_error_columns() {
  static const Columns<ErrorSummary> kColumns = [] {
    Columns<ErrorSummary> columns = error_columns();
    columns.push_back({"within_p10_p90",
                       [](const ErrorSummary& e) { return if_any(e.rows, share_within(e)); },
                       {"inside"},
                       [](const ErrorSummary& e) {
                         const double percent = 100.0 * static_cast<double>(e.within);
                         return e.rows == 0
                                    ? "-"
                                    : fmt::format("{:.0f}", percent / static_cast<double>(e.rows));
                       }});
    return columns;
  }();
  return kColumns;
}

Json if_any(std::size_t rows, double value) {
  return rows == 0 ? Json(nullptr) : Json(value);
}

std::string percent_cell(double ratio) {
  return fmt::format("{:.1f}", 100.0 * ratio);
}

std::string bias_cell(double ratio) {
  return fmt::format("{:+.1f}", 100.0 * ratio);
}

std::string shortened(const std::string& value) {
  constexpr std::size_t kWidest = 46;
  if (value.empty()) return "(empty)";
  return value.size() <= kWidest ? value : value.substr(0, kWidest - 3) + "...";
}

}  // namespace plansearch
