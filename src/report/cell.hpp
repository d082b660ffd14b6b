// SPDX-License-Identifier: Apache-2.0
// Cells of text tables: words, or quantities whose unit the whole column decides.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plansearch/quantity.hpp"

namespace plansearch {

/// Units of one kind of quantity, such as seconds and hours.
struct Scale;

struct Cell {
  Cell(std::string words) : text(std::move(words)) {}  // NOLINT: a cell of words is its words
  Cell(const char* words) : text(words) {}             // NOLINT
  Cell(Seconds time);                                  // NOLINT
  Cell(Bytes size);                                    // NOLINT
  Cell(const Scale& kind, std::vector<double> quantities)
      : scale(&kind), values(std::move(quantities)) {}
  /// "-" for nothing.
  template <typename Q>
  Cell(const std::optional<Q>& value) : Cell(value ? Cell(*value) : Cell("-")) {}  // NOLINT

  /// With words behind the unit.
  [[nodiscard]] Cell with(const std::string& words) && {
    text += words;
    return std::move(*this);
  }

  std::string lead{};            ///< in front of a quantity: its sign
  std::string text{};            ///< all of it, or what follows the unit
  const Scale* scale = nullptr;  ///< absent: words only
  std::vector<double> values;    ///< in base units; several are a range
};

/// "12.3 - 14.5 ms"
[[nodiscard]] Cell range_cell(Seconds from, Seconds to);
[[nodiscard]] Cell range_cell(Bytes from, Bytes to);
[[nodiscard]] Cell count_cell(double count);
[[nodiscard]] Cell energy_cell(const std::optional<double>& joule);
[[nodiscard]] Cell price_cell(const std::optional<double>& usd);

/// The cells of one column, quantities of one kind in one unit: that of the largest, but hours and
/// days only where the smallest is not far below one of them. A thousand days and more are said in
/// years as well.
[[nodiscard]] std::vector<std::string> spelled(const std::vector<const Cell*>& column);

}  // namespace plansearch
