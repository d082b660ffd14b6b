// SPDX-License-Identifier: Apache-2.0
#include "report/text_table.hpp"

#include <algorithm>
#include <utility>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// Characters, not bytes: continuation bytes of UTF-8 take no column.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

void append_padded(std::string& line, const std::string& cell, std::size_t columns, Align align) {
  const std::string space(columns - width(cell), ' ');
  line += align == Align::Right ? space + cell : cell + space;
}

void trim_right(std::string& line) {
  line.erase(line.find_last_not_of(' ') + 1);
}

}  // namespace

TextTable::TextTable(std::vector<TextColumn> columns) : columns_(std::move(columns)) {}

void TextTable::add_row(std::vector<std::string> cells) {
  PLANSEARCH_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t widest = width(columns_[c].title);
    for (const auto& row : rows_) widest = std::max(widest, width(row[c]));
    widths.push_back(widest);
  }
  std::string out;
  const auto append_line = [&](auto cell_of) {
    std::string line;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) line += "  ";
      append_padded(line, cell_of(c), widths[c], columns_[c].align);
    }
    trim_right(line);
    out += line + "\n";
  };
  append_line([&](std::size_t c) { return columns_[c].title; });
  append_line([&](std::size_t c) { return std::string(widths[c], '-'); });
  for (const auto& row : rows_) append_line([&](std::size_t c) { return row[c]; });
  return out;
}

}  // namespace plansearch
