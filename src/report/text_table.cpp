// SPDX-License-Identifier: Apache-2.0
#include "report/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/ranges.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// Characters, not bytes: continuation bytes of UTF-8 take no column.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

void append_padded(std::string& line, const std::string& cell, std::size_t columns, Align align) {
  const std::string space(columns - width(cell), ' ');
  line += align == Align::Right ? space + cell : cell + space;
}

void trim_right(std::string& line) {
  line.erase(line.find_last_not_of(' ') + 1);
}

/// Words of more characters are broken as well, behind a sign between their parts.
constexpr std::size_t kLongWord = 32;

/// A long word in parts of at most `most` characters where its signs allow it.
std::vector<std::string> parts_of(const std::string& word, std::size_t most) {
  std::vector<std::string> parts(1);
  if (width(word) <= std::max(most, kLongWord)) return {word};
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t end = std::min(word.find_first_of("./_-,:", at), word.size() - 1) + 1;
    const std::string part = word.substr(at, end - at);
    if (!parts.back().empty() && width(parts.back()) + width(part) > std::max(most, kLongWord)) {
      parts.emplace_back();
    }
    parts.back() += part;
    at = end;
  }
  return parts;
}

/// A cell in lines of at most `most` characters, broken at spaces where there are any.
std::vector<std::string> broken(const std::string& cell, std::size_t most) {
  std::vector<std::string> lines(1);
  std::size_t at = 0;
  while (at < cell.size()) {
    const std::size_t end = std::min(cell.find(' ', at), cell.size());
    bool first = true;
    for (const std::string& part : parts_of(cell.substr(at, end - at), most)) {
      const bool fits = first && width(lines.back()) + 1 + width(part) <= most;
      if (!lines.back().empty() && !fits) lines.emplace_back();
      lines.back() += (lines.back().empty() ? "" : " ") + part;
      first = false;
    }
    at = end + 1;
  }
  return lines;
}

/// Without signs that Markdown would read; those that are marked already stay as they are, so that
/// a part of an answer may be made first.
std::string markdown_text(const std::string& text) {
  constexpr std::string_view kSigns = "`*_<>|[]#~\\";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool sign = kSigns.find(text[i]) != std::string_view::npos;
    const bool marked = text[i] == '\\' && i + 1 < text.size() &&
                        kSigns.find(text[i + 1]) != std::string_view::npos;
    if (marked) {
      out += text[i++];
    } else if (sign) {
      out += '\\';
    }
    out += text[i];
  }
  return out;
}

constexpr std::string_view kFence = "```";

/// Every line a paragraph; tables and what is between fences as they are.
std::string markdown_lines(const std::string& text) {
  std::string out;
  bool fenced = false;
  bool in_table = false;
  const auto end_block = [&] {
    if (!out.empty() && !out.ends_with("\n\n")) out += '\n';
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const bool fence = line.starts_with(kFence);
    if (fence && !fenced) end_block();
    if (fence) fenced = !fenced;
    const bool table = !fenced && !fence && line.starts_with('|');
    if (table != in_table) end_block();
    in_table = table;
    if (fenced || fence || table) {
      out += line + "\n";
    } else if (const std::size_t begin = line.find_first_not_of(' '); begin != std::string::npos) {
      end_block();
      out += markdown_text(line.substr(begin)) + "\n";
    }
  }
  return out;
}

/// The columns of a table as text.
class TableLayout {
 public:
  TableLayout(const std::vector<TextColumn>& columns, const std::vector<std::vector<Cell>>& rows)
      : columns_(columns), rows_(rows.size()) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      std::vector<const Cell*> column = transformed(rows, [&](const auto& row) { return &row[c]; });
      cells_.push_back(spelled(column));
      measure(c);
    }
  }

  /// Those that say something, less what is dispensable where they are too wide.
  [[nodiscard]] std::vector<std::size_t> kept(int columns) const {
    std::vector<std::size_t> chosen;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c == 0 || rows_ == 0 || says_something(c)) chosen.push_back(c);
    }
    const auto readable = [&](std::size_t c) {
      const bool words = columns_[c].align == Align::Left && columns_[c].dispensable == 0;
      return words ? std::min(widest_[c], std::max(floors_[c], kReadable))
                   : std::max(floors_[c], widest_cell_[c]);
    };
    while (columns > 0 && sum(chosen, readable) > static_cast<std::size_t>(columns)) {
      const auto least = std::ranges::max_element(chosen, [&](std::size_t a, std::size_t b) {
        return columns_[a].dispensable < columns_[b].dispensable;
      });
      if (columns_[*least].dispensable == 0) break;
      chosen.erase(least);
    }
    return chosen;
  }

  [[nodiscard]] std::string markdown() const {
    const auto line = [](const std::vector<std::string>& cells) {
      std::string text = "|";
      for (const std::string& cell : cells) text += " " + markdown_text(cell) + " |";
      return text + "\n";
    };
    const std::vector<std::size_t> shown = kept(kAnyWidth);
    std::vector<std::string> titles;
    std::string rule = "|";
    for (const std::size_t c : shown) {
      titles.push_back(columns_[c].title);
      rule += columns_[c].align == Align::Right ? "---:|" : ":---|";
    }
    std::string text = line(titles) + rule + "\n";
    for (std::size_t r = 0; r < rows_; ++r) {
      std::vector<std::string> cells;
      for (const std::size_t c : shown) cells.push_back(cells_[c][r]);
      text += line(cells);
    }
    return text;
  }

  [[nodiscard]] std::string text(int columns) const {
    if (columns == kMarkdown) return markdown();
    std::vector<std::size_t> left = kept(columns);
    std::string out;
    while (!left.empty()) {
      const std::vector<std::size_t> block = first_block(left, columns);
      if (!out.empty()) out += "\n";
      append_block(out, block, narrowed(block, columns));
      std::erase_if(left, [&](std::size_t c) { return contains(block, c); });
      if (!left.empty()) left.insert(left.begin(), block.front());
    }
    return out;
  }

 private:
  /// Characters of a text that is comfortable to read in lines.
  static constexpr std::size_t kReadable = 30;
  /// Titles and texts are not made narrower than this.
  static constexpr std::size_t kNarrowest = 16;

  void measure(std::size_t c) {
    const bool words = columns_[c].align == Align::Left;
    std::size_t cell = 0;
    std::size_t word = 0;
    const auto add_words = [&](const std::string& text) {
      for (const std::string& one : broken(text, 0)) word = std::max(word, width(one));
    };
    for (const std::string& text : cells_[c]) {
      cell = std::max(cell, width(text));
      if (words) add_words(text);
    }
    add_words(columns_[c].title);
    widest_cell_.push_back(cell);
    widest_.push_back(std::max(cell, width(columns_[c].title)));
    floors_.push_back(words ? std::max(word, std::min(kNarrowest, widest_.back()))
                            : std::max(word, cell));
  }

  [[nodiscard]] bool says_something(std::size_t c) const {
    return std::ranges::any_of(
        cells_[c], [](const std::string& text) { return !text.empty() && text != "-"; });
  }

  template <typename Width>
  static std::size_t sum(const std::vector<std::size_t>& shown, const Width& width_of) {
    std::size_t total = 2 * (shown.size() - 1);
    for (const std::size_t c : shown) total += width_of(c);
    return total;
  }

  /// As many as fit side by side, two at least.
  [[nodiscard]] std::vector<std::size_t> first_block(const std::vector<std::size_t>& left,
                                                     int columns) const {
    std::vector<std::size_t> block = left;
    const auto floor = [&](std::size_t c) { return floors_[c]; };
    while (columns > 0 && block.size() > 2 &&
           sum(block, floor) > static_cast<std::size_t>(columns)) {
      block.pop_back();
    }
    return block;
  }

  /// Widths in which the widest are broken until the columns are narrow enough.
  [[nodiscard]] std::vector<std::size_t> narrowed(const std::vector<std::size_t>& shown,
                                                  int columns) const {
    std::vector<std::size_t> widths = widest_;
    if (columns <= 0) return widths;
    std::size_t total = sum(shown, [&](std::size_t c) { return widths[c]; });
    while (total > static_cast<std::size_t>(columns)) {
      std::optional<std::size_t> widest;
      for (const std::size_t c : shown) {
        if (widths[c] > floors_[c] && (!widest || widths[c] > widths[*widest])) widest = c;
      }
      if (!widest) break;
      --widths[*widest];
      --total;
    }
    return widths;
  }

  void append_block(std::string& out, const std::vector<std::size_t>& shown,
                    const std::vector<std::size_t>& widths) const {
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
        append_line(
            [&](std::size_t c) { return i < lines[c].size() ? lines[c][i] : std::string(); });
      }
    };
    append_row([&](std::size_t c) { return columns_[c].title; });
    append_line([&](std::size_t c) { return std::string(widths[c], '-'); });
    for (std::size_t r = 0; r < rows_; ++r) append_row([&](std::size_t c) { return cells_[c][r]; });
  }

  const std::vector<TextColumn>& columns_;
  std::size_t rows_;
  std::vector<std::vector<std::string>> cells_;  ///< by column
  std::vector<std::size_t> widest_cell_;
  std::vector<std::size_t> widest_;  ///< cell or title
  std::vector<std::size_t> floors_;  ///< with titles and texts broken
};

/// Where the second line of a broken one begins.
std::size_t hanging_indent(const std::string& line) {
  constexpr std::size_t kIndent = 2;
  constexpr std::size_t kMostName = 30;
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", begin);
  if (begin == 0 || gap == std::string::npos || gap > kMostName) return begin + kIndent;
  return std::min(line.find_first_not_of(' ', gap), line.size());
}

void append_wrapped(std::string& out, const std::string& text, std::size_t most) {
  if (width(text) <= most) {
    out += text;
    return;
  }
  const std::string indent(std::min(hanging_indent(text), most / 2), ' ');
  std::string line;  // so far, without the space before the next word
  bool begun = false;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (begun && width(line) + 1 + width(word) > most) {
      trim_right(line);
      out += line + "\n";
      line = indent + word;
    } else {
      line += (at > 0 ? " " : "") + word;
    }
    begun = begun || !word.empty();
    at = end + 1;
  }
  out += line;
}

}  // namespace

TextTable::TextTable(std::vector<TextColumn> columns) : columns_(std::move(columns)) {}

void TextTable::add_row(std::vector<Cell> cells) {
  PLANSEARCH_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

bool TextTable::shows(std::string_view title, int columns) const {
  const std::vector<std::size_t> shown = TableLayout(columns_, rows_).kept(columns);
  return std::ranges::any_of(shown, [&](std::size_t c) { return columns_[c].title == title; });
}

std::string TextTable::text(int columns) const {
  return TableLayout(columns_, rows_).text(columns);
}

std::string wrapped(const std::string& text, int columns) {
  if (columns == kAnyWidth) return text;
  if (columns == kMarkdown) return markdown_lines(text);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    append_wrapped(out, text.substr(at, end - at), static_cast<std::size_t>(columns));
    if (end < text.size()) out += "\n";
    at = end + 1;
  }
  return out;
}

std::string verbatim(const std::string& text, int columns) {
  if (columns != kMarkdown || text.empty()) return text;
  return fmt::format("{}\n{}{}{}\n", kFence, text, text.ends_with('\n') ? "" : "\n", kFence);
}

SpelledTable TextTable::spelled_out() const {
  SpelledTable table;
  table.rows.resize(rows_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::vector<const Cell*> column = transformed(rows_, [&](const auto& row) { return &row[c]; });
    const std::vector<std::string> texts = spelled(column);
    const bool says_something = c == 0 || std::ranges::any_of(texts, [](const std::string& text) {
                                  return !text.empty() && text != "-";
                                });
    if (!says_something) continue;
    table.columns.push_back(columns_[c]);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const std::vector<double>& values = rows_[r][c].values;
      table.rows[r].push_back(
          {texts[r], values.empty() ? std::nullopt : std::optional(values.front())});
    }
  }
  return table;
}

}  // namespace plansearch
