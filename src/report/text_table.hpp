// SPDX-License-Identifier: Apache-2.0
// Aligned text tables.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/cell.hpp"

namespace plansearch {

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

/// `text` with every line broken at spaces to at most `columns` characters. What is broken off is
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
  /// Header, rule and rows; every line ends in '\n', without trailing spaces. Of at most `columns`
  /// characters, by leaving out what is dispensable, then by breaking titles and texts, then by
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
