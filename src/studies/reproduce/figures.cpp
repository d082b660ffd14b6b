// SPDX-License-Identifier: Apache-2.0
#include "studies/reproduce/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/units.hpp"
#include "plansearch/error.hpp"

namespace plansearch {

std::optional<bool> ReproducedRow::within() const {
  if (!low && !high) return std::nullopt;
  return predicted && (!low || *predicted >= *low) && (!high || *predicted <= *high);
}

namespace {

/// "0.5..2", "..1", "3.."; "+-0.2" and "x0.9..1.1" of what was published.
void read_band(const io::CsvTable& table, const io::CsvRow& row, ReproducedRow& figure) {
  std::string_view text = table.text(row, "band");
  if (text.empty()) return;
  const auto number = [&](std::string_view word) -> std::optional<double> {
    if (word.empty()) return std::nullopt;
    if (const auto value = parse_number(word)) return value;
    table.fail(row, "band", fmt::format("\"{}\" is not a number", word));
  };
  const double published = figure.published.value_or(0.0);
  if (text.starts_with("+-")) {
    const double to_both_sides = number(text.substr(2)).value_or(0.0);
    figure.low = published - to_both_sides;
    figure.high = published + to_both_sides;
    return;
  }
  const bool factors = text.starts_with('x');
  if (factors) text.remove_prefix(1);
  const std::size_t dots = std::min(text.find(".."), text.size());
  figure.low = number(text.substr(0, dots));
  figure.high = dots == text.size() ? figure.low : number(text.substr(dots + 2));
  for (std::optional<double>* bound : {&figure.low, &figure.high}) {
    if (factors && *bound) **bound *= published;
  }
}

}  // namespace

Figures::Figures(const ShippedData& data, std::string_view paper) {
  const auto table = io::CsvTable::read(data.directory() / "validation" / "published" /
                                        fmt::format("{}.csv", paper));
  constexpr double kAny = -std::numeric_limits<double>::max();
  for (const io::CsvRow& row : table.rows()) {
    ReproducedRow figure;
    figure.check = table.text(row, "check");
    figure.unit = table.text(row, "unit");
    figure.published = table.number(row, "published", kAny);
    figure.source = table.text(row, "source");
    read_band(table, row, figure);
    if (!known_.emplace(table.text(row, "id"), std::move(figure)).second) {
      table.fail(row, "id", "another figure has this id");
    }
  }
}

const ReproducedRow& Figures::at(std::string_view id) const {
  const auto found = known_.find(id);
  if (found != known_.end()) return found->second;
  throw InputError({}, fmt::format("validation/published has no figure \"{}\"", id));
}

double Figures::published(std::string_view id) const {
  return at(id).published.value();
}

ReproducedRow& Figures::add(std::string_view id, std::optional<double> predicted,
                            const std::vector<std::string>& words) {
  ReproducedRow& row = rows_.emplace_back(at(id));
  row.predicted = predicted;
  std::size_t place = 0;
  for (const std::string& word : words) {
    place = row.check.find("{}", place);
    PLANSEARCH_CHECK(place != std::string::npos);
    row.check.replace(place, 2, word);
    place += word.size();
  }
  return row;
}

}  // namespace plansearch
