// SPDX-License-Identifier: Apache-2.0
#include "io/tables/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "io/document/file.hpp"

namespace plansearch::io {
namespace {

/// Splits text into rows of cells; quotes may hold commas, line ends and doubled quotes.
class CsvScanner {
 public:
  CsvScanner(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  [[nodiscard]] bool done() const { return at_ >= text_.size(); }

  CsvRow next_row() {
    CsvRow row;
    row.line = line_;
    while (true) {
      row.cells.push_back(next_cell());
      if (done()) return row;
      const char separator = take();
      if (separator == '\r' && !done() && text_[at_] == '\n') take();
      if (separator != ',') return row;
    }
  }

 private:
  CsvCell next_cell() {
    CsvCell cell{{}, line_, column_};
    if (!done() && text_[at_] == '"') {
      take();
      quoted(cell);
      if (!done() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') {
        throw InputError({file_, line_, column_}, "text after a closing quote",
                         "quote the whole cell");
      }
      return cell;
    }
    while (!done() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') {
      cell.text += take();
    }
    return cell;
  }

  void quoted(CsvCell& cell) {
    while (true) {
      if (done()) {
        throw InputError({file_, cell.line, cell.column}, "this quote never closes",
                         "double a quote inside a quoted cell");
      }
      const char c = take();
      if (c != '"') {
        cell.text += c;
      } else if (!done() && text_[at_] == '"') {
        cell.text += take();
      } else {
        return;
      }
    }
  }

  char take() {
    const char c = text_[at_];
    if (at_ == next_character_) {
      const std::string_view rest = text_.substr(at_);
      const std::string_view character =
          rest.substr(0, std::max(utf8_length(rest), std::size_t{1}));
      if (find_control(character) == 0) {
        throw InputError({file_, line_, column_},
                         fmt::format("byte 0x{:02x} does not belong in a table", c),
                         "is this the right file? a table is text in UTF-8");
      }
      next_character_ += character.size();
    }
    ++at_;
    if (c == '\n') {
      ++line_;
      column_ = 1;
    } else {
      ++column_;
    }
    return c;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  std::size_t next_character_ = 0;
  int line_ = 1;
  int column_ = 1;
};

bool is_blank(const CsvRow& row) {
  return row.cells.size() == 1 && row.cells[0].text.empty();
}

std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  return text.substr(0, 3) == kByteOrderMark ? text.substr(3) : text;
}

}  // namespace

std::vector<CsvRow> csv_rows(std::string_view text, const std::string& file_name) {
  std::vector<CsvRow> rows;
  for (CsvScanner scanner(without_mark(text), file_name); !scanner.done();) {
    rows.push_back(scanner.next_row());
  }
  return rows;
}

CsvTable CsvTable::read(const std::filesystem::path& path) {
  return parse(read_file(path), path.string());
}

CsvTable CsvTable::parse(std::string_view text, std::string file_name) {
  CsvTable table;
  table.file_ = std::move(file_name);
  CsvScanner scanner(without_mark(text), table.file_);
  if (scanner.done()) {
    throw InputError({table.file_, 1, 1}, "the table is empty", "start with a header line");
  }
  std::unordered_set<std::string> seen;
  for (const CsvCell& cell : scanner.next_row().cells) {
    if (!seen.insert(cell.text).second) {
      throw InputError({table.file_, cell.line, cell.column},
                       fmt::format("column \"{}\" appears twice", cell.text));
    }
    table.header_.push_back(cell.text);
  }
  while (!scanner.done()) {
    CsvRow row = scanner.next_row();
    if (is_blank(row)) continue;
    if (row.cells.size() != table.header_.size()) {
      throw InputError(
          {table.file_, row.line, 1},
          fmt::format("{} cells where the header has {}", row.cells.size(), table.header_.size()),
          "quote cells that hold a comma");
    }
    table.rows_.push_back(std::move(row));
  }
  return table;
}

std::map<std::string, std::string, std::less<>> CsvTable::cells(const CsvRow& row) const {
  std::map<std::string, std::string, std::less<>> cells;
  for (std::size_t i = 0; i < header_.size(); ++i) cells.emplace(header_[i], row.cells[i].text);
  return cells;
}

bool CsvTable::has(std::string_view column) const {
  return contains(header_, column);
}

std::size_t CsvTable::index_of(std::string_view column) const {
  const auto found = std::ranges::find(header_, column);
  if (found == header_.end()) {
    throw InputError({file_, 1, 1}, fmt::format("the table has no column \"{}\"", column),
                     did_you_mean(column, header_));
  }
  return static_cast<std::size_t>(found - header_.begin());
}

const std::string& CsvTable::text(const CsvRow& row, std::string_view column) const {
  return row.cells[index_of(column)].text;
}

void CsvTable::fail_header(const std::string& message, std::string hint) const {
  throw InputError({file_, 1, 1}, message, std::move(hint));
}

void CsvTable::fail(const CsvRow& row, std::string_view column, const std::string& message,
                    std::string hint) const {
  const CsvCell& cell = row.cells[index_of(column)];
  throw InputError({file_, cell.line, cell.column}, message, std::move(hint));
}

std::optional<double> CsvTable::number(const CsvRow& row, std::string_view column,
                                       double low) const {
  const std::string& cell = text(row, column);
  if (cell.empty()) return std::nullopt;
  const auto parsed = cell.front() == ' ' || cell.back() == ' ' ? std::nullopt : parse_number(cell);
  if (!parsed) {
    fail(row, column, fmt::format("\"{}\" in column {} is not a number", cell, column),
         "leave the cell empty when the value is unknown");
  }
  if (*parsed < low) {
    fail(row, column, fmt::format("{} in column {} is below {}", cell, column, low));
  }
  return parsed;
}

std::optional<std::int64_t> CsvTable::integer(const CsvRow& row, std::string_view column,
                                              std::int64_t low) const {
  const auto value = number(row, column, static_cast<double>(low));
  if (!value) return std::nullopt;
  if (*value != std::floor(*value) || *value > 9e15) {
    fail(row, column,
         fmt::format("\"{}\" in column {} is not a whole number", text(row, column), column));
  }
  return static_cast<std::int64_t>(*value);
}

}  // namespace plansearch::io
