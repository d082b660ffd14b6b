// SPDX-License-Identifier: Apache-2.0
#include "report/text_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "report/plan_cells.hpp"

namespace plansearch {

/// A unit is for columns whose largest value is `from` or more and the smallest `least` or more.
struct Unit {
  double factor;
  const char* name;
  double from;
  double least = 0.0;
};

struct Scale {
  const char* sign;             ///< in front
  std::vector<Unit> units;      ///< small ones first
  std::optional<Unit> besides;  ///< said as well, in parentheses
};

namespace {

constexpr double kSecondsPerHour = 3600.0;
constexpr double kDay = 24.0 * kSecondsPerHour;

/// Three digits would round such values to the next unit.
constexpr double kAlmost = 0.9995;

const Scale& times() {
  static const Scale kTimes{"",
                            {{1e-9, " ns", 0.0},
                             {1e-6, " us", kAlmost * 1e-6},
                             {1e-3, " ms", kAlmost * 1e-3},
                             {1.0, " s", kAlmost},
                             {kSecondsPerHour, " h", kSecondsPerHour, kSecondsPerHour / 10.0},
                             {kDay, " days", 2.0 * kDay, kDay / 10.0}},
                            Unit{365.25 * kDay, " years", 1000.0 * kDay}};
  return kTimes;
}

const Scale& sizes() {
  static const Scale kSizes{"",
                            {{1.0, " B", 0.0},
                             {0x1p10, " KiB", kAlmost * 0x1p10},
                             {0x1p20, " MiB", kAlmost * 0x1p20},
                             {0x1p30, " GiB", kAlmost * 0x1p30},
                             {0x1p40, " TiB", kAlmost * 0x1p40}},
                            std::nullopt};
  return kSizes;
}

std::vector<Unit> prefixes() {
  return {{1.0, "", 0.0},
          {1e3, " k", kAlmost * 1e3},
          {1e6, " M", kAlmost * 1e6},
          {1e9, " B", kAlmost * 1e9},
          {1e12, " T", kAlmost * 1e12}};
}

const Scale& counts() {
  static const Scale kCounts{"", prefixes(), std::nullopt};
  return kCounts;
}

const Scale& prices() {
  static const Scale kPrices{"$ ", prefixes(), std::nullopt};
  return kPrices;
}

const Scale& energies() {
  constexpr double kKilowattHour = 1e3 * kSecondsPerHour;
  static const Scale kEnergies{"",
                               {{kKilowattHour, " kWh", 0.0},
                                {1e3 * kKilowattHour, " MWh", kAlmost * 1e3 * kKilowattHour},
                                {1e6 * kKilowattHour, " GWh", kAlmost * 1e6 * kKilowattHour}},
                               std::nullopt};
  return kEnergies;
}

/// Three digits: "7,930", "51.1", "0.00123".
std::string number(double value) {
  constexpr double kLeast = 1e-4;
  if (value == 0.0) return "0";
  if (std::abs(value) < kLeast) return fmt::format("<{}", kLeast);
  if (std::abs(value) < 0.9995) return fmt::format("{:.3g}", value);
  if (std::abs(value) < 9.995) return fmt::format("{:.2f}", value);
  if (std::abs(value) < 99.95) return fmt::format("{:.1f}", value);
  if (std::abs(value) < 999.5) return fmt::format("{:.0f}", value);
  const bool readable = std::abs(value) < 1e15;
  return readable ? grouped(std::llround(value)) : fmt::format("{:.2e}", value);
}

const Unit& unit_of(const Scale& scale, double least, double most) {
  const Unit* chosen = &scale.units.front();
  for (const Unit& unit : scale.units) {
    if (most >= unit.from && least >= unit.least) chosen = &unit;
  }
  return *chosen;
}

std::string spelled_in(const Unit& unit, const Cell& cell) {
  std::vector<std::string> numbers;
  for (const double value : cell.values) numbers.push_back(number(value / unit.factor));
  std::string text =
      fmt::format("{}{}{}{}", cell.lead, cell.scale->sign, fmt::join(numbers, " - "), unit.name);
  if (const auto& other = cell.scale->besides; other && cell.values.front() >= other->from) {
    text += fmt::format(" ({:.1f}{})", cell.values.front() / other->factor, other->name);
  }
  return text + cell.text;
}

/// Values of a column, in absolute terms; zeros fit any unit.
struct Extent {
  double least = std::numeric_limits<double>::infinity();
  double most = 0.0;

  void add(const std::vector<double>& values) {
    for (const double value : values) {
      if (value != 0.0) least = std::min(least, std::abs(value));
      most = std::max(most, std::abs(value));
    }
  }
  /// Beyond this ratio no unit suits all: every cell has its own.
  [[nodiscard]] bool is_wide() const {
    constexpr double kWide = 1e6;
    return most > kWide * least;
  }
};

}  // namespace

Cell::Cell(Seconds time) : Cell(times(), {time.value()}) {}
Cell::Cell(Bytes size) : Cell(sizes(), {size.value()}) {}

Cell range_cell(Seconds from, Seconds to) {
  return {times(), {from.value(), to.value()}};
}

Cell range_cell(Bytes from, Bytes to) {
  return {sizes(), {from.value(), to.value()}};
}

Cell count_cell(double count) {
  return {counts(), {count}};
}

Cell energy_cell(const std::optional<double>& joule) {
  return joule ? Cell(energies(), {*joule}) : Cell("-");
}

Cell price_cell(const std::optional<double>& usd) {
  return usd ? Cell(prices(), {*usd}) : Cell("-");
}

std::vector<std::string> spelled(const std::vector<const Cell*>& column) {
  std::map<const Scale*, Extent> extents;
  for (const Cell* cell : column) {
    if (cell->scale != nullptr) extents[cell->scale].add(cell->values);
  }
  std::vector<std::string> texts;
  for (const Cell* cell : column) {
    if (cell->scale == nullptr) {
      texts.push_back(cell->text);
      continue;
    }
    Extent extent = extents.at(cell->scale);
    if (extent.is_wide()) {
      extent = {};
      extent.add(cell->values);
    }
    texts.push_back(spelled_in(unit_of(*cell->scale, extent.least, extent.most), *cell));
  }
  return texts;
}

}  // namespace plansearch
