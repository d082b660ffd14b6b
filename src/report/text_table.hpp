// SPDX-License-Identifier: Apache-2.0
// Aligned text tables. Their cells are words, or quantities whose unit the whole column decides.
#pragma once

#include <optional>
#include <string>
#include <string_view>
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

enum class Align { Left, Right };

struct TextColumn {
  std::string title;
  Align align = Align::Right;
  /// Left out where the table is too wide: the highest first. 0: never.
  int dispensable = 0;
};

/// Tables and sentences as long as they come out.
inline constexpr int kAnyWidth = 0;
/// In the place of a width: tables and sentences as Markdown.
inline constexpr int kMarkdown = -1;

/// Lines that stand as they are in any form: a picture made of characters.
[[nodiscard]] std::string verbatim(const std::string& text, int columns);

/// `text` with every line broken at spaces to at most `columns` characters. The rest of a line is
/// indented by two more than the line; behind a word and two spaces ("  name  meaning"), as far as
/// the meaning. As Markdown every line is a paragraph, but for tables and what is verbatim.
[[nodiscard]] std::string wrapped(const std::string& text, int columns);

/// A cell as text, and the quantity it stands for.
struct SpelledCell {
  std::string text;
  std::optional<double> value;
};
/// A table for other forms than text: the columns that say something.
struct SpelledTable {
  std::vector<TextColumn> columns;
  std::vector<std::vector<SpelledCell>> rows;
};

/// Columns as wide as their widest cell (in characters, UTF-8 aware), two spaces apart. Columns
/// whose cells are all empty or "-" are left out, but for the first.
class TextTable {
 public:
  explicit TextTable(std::vector<TextColumn> columns);
  /// As many cells as columns.
  void add_row(std::vector<Cell> cells);
  /// Header, rule and rows; every line ends in '\n', without trailing spaces. At most `columns`
  /// characters wide, by leaving out what is dispensable, then by breaking titles and texts, then by
  /// setting columns below the others, behind the first column once more. Only words are never
  /// broken.
  [[nodiscard]] std::string text(int columns = kAnyWidth) const;
  /// Whether that leaves the column of this title.
  [[nodiscard]] bool shows(std::string_view title, int columns) const;
  [[nodiscard]] SpelledTable spelled_out() const;

 private:
  std::vector<TextColumn> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace plansearch
