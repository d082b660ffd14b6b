// SPDX-License-Identifier: Apache-2.0
// Aligned text tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

/// `text` with every line broken at spaces to at most `columns` characters; what is broken off is
/// indented by two.
[[nodiscard]] std::string wrapped(const std::string& text, int columns);

/// Columns as wide as their widest cell (in characters, UTF-8 aware), two spaces apart.
class TextTable {
 public:
  explicit TextTable(std::vector<TextColumn> columns);
  /// As many cells as columns.
  void add_row(std::vector<std::string> cells);
  /// Header, rule and rows; every line ends in '\n', without trailing spaces. Of at most `columns`
  /// characters, if leaving out what is dispensable and breaking texts achieves that.
  [[nodiscard]] std::string text(int columns = kAnyWidth) const;
  /// Whether that leaves the column of this title.
  [[nodiscard]] bool shows(std::string_view title, int columns) const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;
  /// Its longest word, or a few words.
  [[nodiscard]] std::size_t narrowest(std::size_t column, std::size_t widest) const;
  /// Widths in which the widest texts are broken until the table is narrow enough.
  [[nodiscard]] std::vector<std::size_t> narrowed(int columns,
                                                  const std::vector<std::size_t>& shown) const;
  /// The columns that are left.
  [[nodiscard]] std::vector<std::size_t> kept(int columns) const;

  std::vector<TextColumn> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace plansearch
