// SPDX-License-Identifier: Apache-2.0
// Aligned text tables.
#pragma once

#include <string>
#include <vector>

namespace plansearch {

enum class Align { Left, Right };

struct TextColumn {
  std::string title;
  Align align = Align::Right;
};

/// Columns as wide as their widest cell (in characters, UTF-8 aware), two spaces apart.
class TextTable {
 public:
  explicit TextTable(std::vector<TextColumn> columns);
  /// As many cells as columns.
  void add_row(std::vector<std::string> cells);
  /// Header, rule and rows; every line ends in '\n', without trailing spaces.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<TextColumn> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace plansearch
