// SPDX-License-Identifier: Apache-2.0
#include "report/text_table.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
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

/// A cell in lines of at most `most` characters, broken at spaces where there are any.
std::vector<std::string> broken(const std::string& cell, std::size_t most) {
  std::vector<std::string> lines(1);
  std::size_t at = 0;
  while (at < cell.size()) {
    const std::size_t end = std::min(cell.find(' ', at), cell.size());
    const std::string word = cell.substr(at, end - at);
    if (!lines.back().empty() && width(lines.back()) + 1 + width(word) > most) {
      lines.emplace_back();
    }
    lines.back() += (lines.back().empty() ? "" : " ") + word;
    at = end + 1;
  }
  return lines;
}

}  // namespace

TextTable::TextTable(std::vector<TextColumn> columns) : columns_(std::move(columns)) {}

void TextTable::add_row(std::vector<std::string> cells) {
  PLANSEARCH_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widest;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widest.push_back(width(columns_[c].title));
    for (const auto& row : rows_) widest[c] = std::max(widest[c], width(row[c]));
  }
  return widest;
}

std::vector<std::size_t> TextTable::kept(int columns) const {
  const std::vector<std::size_t> widths = this->widths();
  std::vector<std::size_t> chosen(columns_.size());
  std::iota(chosen.begin(), chosen.end(), 0);
  const auto wide = [&] {
    std::size_t sum = 2 * (chosen.size() - 1);
    for (const std::size_t c : chosen) sum += widths[c];
    return columns != kAnyWidth && sum > static_cast<std::size_t>(columns);
  };
  while (wide()) {
    const auto least =
        std::max_element(chosen.begin(), chosen.end(), [&](std::size_t a, std::size_t b) {
          return columns_[a].dispensable < columns_[b].dispensable;
        });
    if (columns_[*least].dispensable == 0) break;
    chosen.erase(least);
  }
  return chosen;
}

std::size_t TextTable::narrowest(std::size_t column, std::size_t widest) const {
  std::size_t longest = std::min<std::size_t>(16, widest);
  const auto add = [&](const std::string& cell) {
    for (const std::string& word : broken(cell, 0)) longest = std::max(longest, width(word));
  };
  add(columns_[column].title);
  for (const auto& row : rows_) add(row[column]);
  return longest;
}

std::vector<std::size_t> TextTable::narrowed(int columns,
                                             const std::vector<std::size_t>& shown) const {
  std::vector<std::size_t> widths = this->widths();
  std::size_t sum = 2 * (shown.size() - 1);
  for (const std::size_t c : shown) sum += widths[c];
  const auto most = static_cast<std::size_t>(columns);
  if (columns == kAnyWidth || sum <= most) return widths;
  std::vector<std::size_t> floors(columns_.size(), 0);
  for (const std::size_t c : shown) floors[c] = narrowest(c, widths[c]);
  while (sum > most) {
    std::optional<std::size_t> widest;
    for (const std::size_t c : shown) {
      if (columns_[c].align != Align::Left || widths[c] <= floors[c]) continue;
      if (!widest || widths[c] > widths[*widest]) widest = c;
    }
    if (!widest) break;
    --widths[*widest];
    --sum;
  }
  return widths;
}

bool TextTable::shows(std::string_view title, int columns) const {
  const std::vector<std::size_t> shown = kept(columns);
  return std::any_of(shown.begin(), shown.end(),
                     [&](std::size_t c) { return columns_[c].title == title; });
}

std::string TextTable::text(int columns) const {
  const std::vector<std::size_t> shown = kept(columns);
  const std::vector<std::size_t> widths = narrowed(columns, shown);
  std::string out;
  const auto append_line = [&](auto cell_of) {
    std::string line;
    for (const std::size_t c : shown) {
      if (c != shown.front()) line += "  ";
      append_padded(line, cell_of(c), widths[c], columns_[c].align);
    }
    trim_right(line);
    out += line + "\n";
  };
  const auto append_row = [&](auto cell_of) {
    std::vector<std::vector<std::string>> lines(columns_.size());
    std::size_t height = 1;
    for (const std::size_t c : shown) {
      lines[c] = broken(cell_of(c), widths[c]);
      height = std::max(height, lines[c].size());
    }
    for (std::size_t i = 0; i < height; ++i) {
      append_line([&](std::size_t c) { return i < lines[c].size() ? lines[c][i] : std::string(); });
    }
  };
  append_row([&](std::size_t c) { return columns_[c].title; });
  append_line([&](std::size_t c) { return std::string(widths[c], '-'); });
  for (const auto& row : rows_) append_row([&](std::size_t c) { return row[c]; });
  return out;
}

std::string wrapped(const std::string& text, int columns) {
  constexpr std::size_t kIndent = 2;
  if (columns == kAnyWidth) return text;
  const auto most = static_cast<std::size_t>(columns);
  std::string out;
  std::string line;  // so far, without the space before the next word
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string word = text.substr(at, end - at);
    const bool fits = width(line) + 1 + width(word) <= most;
    if (!line.empty() && !fits) {
      trim_right(line);
      out += line + "\n";
      line = std::string(kIndent, ' ') + word;
    } else {
      line += (at > 0 && text[at - 1] == ' ' ? " " : "") + word;
    }
    if (end < text.size() && text[end] == '\n') {
      out += line + "\n";
      line.clear();
    }
    at = end + 1;
  }
  return out + line;
}

}  // namespace plansearch
