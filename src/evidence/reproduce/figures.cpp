// SPDX-License-Identifier: Apache-2.0
#include "evidence/reproduce/figures.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/units.hpp"
#include "plansearch/error.hpp"

namespace plansearch {

std::optional<bool> ReproducedRow::within() const {
  if (!low && !high) return std::nullopt;
  return predicted && (!low || *predicted >= *low) && (!high || *predicted <= *high);
}

std::optional<bool> ReproducedRow::expected() const {
  if (!published || !p10 || !p90) return std::nullopt;
  return *p10 <= *published && *published <= *p90;
}

std::optional<double> ReproducedRow::error() const {
  if (!published || !predicted || *published == 0.0) return std::nullopt;
  return std::abs(*predicted / *published - 1.0);
}

namespace {

/// "0.5..2", "..1", "3.."; "+-0.2" and "x0.9..1.1" of what was published. False for other texts.
bool set_band(std::string_view text, ReproducedRow& row) {
  if (text.empty()) return true;
  bool numbers = true;
  const auto number = [&](std::string_view word) -> std::optional<double> {
    if (word.empty()) return std::nullopt;
    const auto value = parse_number(word);
    numbers = numbers && value.has_value();
    return value;
  };
  const double published = row.published.value_or(0.0);
  if (text.starts_with("+-")) {
    const double to_both_sides = number(text.substr(2)).value_or(0.0);
    row.low = published - to_both_sides;
    row.high = published + to_both_sides;
    return numbers;
  }
  const bool factors = text.starts_with('x');
  if (factors) text.remove_prefix(1);
  const std::size_t dots = std::min(text.find(".."), text.size());
  row.low = number(text.substr(0, dots));
  row.high = dots == text.size() ? row.low : number(text.substr(dots + 2));
  for (std::optional<double>* bound : {&row.low, &row.high}) {
    if (factors && *bound) **bound *= published;
  }
  return numbers;
}

FigureKind read_kind(const io::CsvTable& table, const io::CsvRow& row) {
  const std::string& word = table.text(row, "kind");
  const auto* found = std::find(kFigureKinds.begin(), kFigureKinds.end(), word);
  if (found == kFigureKinds.end()) {
    table.fail(row, "kind", fmt::format("\"{}\" is not a kind of figure", word),
               fmt::format("one of {}", fmt::join(kFigureKinds, ", ")));
  }
  return static_cast<FigureKind>(found - kFigureKinds.begin());
}

PublishedFigure read_figure(const io::CsvTable& table, const io::CsvRow& row) {
  constexpr double kAny = -std::numeric_limits<double>::max();
  const auto optional = [&](const char* column) {
    return table.has(column) ? table.text(row, column) : std::string();
  };
  PublishedFigure figure{
      {}, table.text(row, "band"), optional("question"), optional("measure"), optional("over")};
  ReproducedRow& published = figure.row;
  published.kind = read_kind(table, row);
  published.check = table.text(row, "check");
  published.unit = table.text(row, "unit");
  published.published = table.number(row, "published", kAny);
  published.source = table.text(row, "source");
  published.locator = table.text(row, "locator");
  if (!set_band(figure.band, published)) {
    table.fail(row, "band", fmt::format("\"{}\" is not a band", figure.band),
               "1..2, ..2, 1.., +-0.2 or x0.9..1.1");
  }
  if (published.kind != FigureKind::Own &&
      (published.source.empty() || published.locator.empty())) {
    table.fail(row, "locator", "a published figure has a source and a locator");
  }
  return figure;
}

}  // namespace

Figures::Figures(const ShippedData& data, std::string_view paper) {
  const auto table = io::CsvTable::read(data.directory() / "validation" / "published" /
                                        fmt::format("{}.csv", paper));
  for (const io::CsvRow& row : table.rows()) {
    const std::string& id = table.text(row, "id");
    const auto [figure, fresh] = known_.emplace(id, read_figure(table, row));
    if (!fresh) table.fail(row, "id", "another figure has this id");
    if (!figure->second.question.empty()) asked_.push_back(id);
  }
}

const PublishedFigure& Figures::at(std::string_view id) const {
  const auto found = known_.find(id);
  if (found != known_.end()) return found->second;
  throw InputError({}, fmt::format("validation/published has no figure \"{}\"", id));
}

double Figures::published(std::string_view id) const {
  return at(id).row.published.value();
}

ReproducedRow& Figures::add(std::string_view id, const Predicted& predicted,
                            const std::vector<std::string>& words,
                            std::optional<double> published) {
  const PublishedFigure& figure = at(id);
  ReproducedRow& row = rows_.emplace_back(figure.row);
  row.predicted = predicted.at_site;
  row.tuned = predicted.at_factor_one;
  row.p10 = predicted.p10;
  row.p90 = predicted.p90;
  if (published) {
    row.published = published;
    PLANSEARCH_CHECK(set_band(figure.band, row));
  }
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
