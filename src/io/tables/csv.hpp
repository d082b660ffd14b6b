// SPDX-License-Identifier: Apache-2.0
// Comma-separated values (RFC 4180) with the place of every cell, so that a wrong one can be named.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/error.hpp"

namespace plansearch::io {

struct CsvCell {
  std::string text;
  int line = 0;
  int column = 0;
};

struct CsvRow {
  std::vector<CsvCell> cells;
  int line = 0;
};

/// Rows as long as each is, the first of them no header.
[[nodiscard]] std::vector<CsvRow> csv_rows(std::string_view text, const std::string& file_name);

/// A table with a header line. Cells are found by column name.
class CsvTable {
 public:
  /// InputError for files that cannot be read, rows with more or fewer cells than the header,
  /// quotes that never close, and repeated column names.
  [[nodiscard]] static CsvTable read(const std::filesystem::path& path);
  [[nodiscard]] static CsvTable parse(std::string_view text, std::string file_name);

  [[nodiscard]] const std::vector<std::string>& header() const { return header_; }
  [[nodiscard]] const std::vector<CsvRow>& rows() const { return rows_; }
  [[nodiscard]] bool has(std::string_view column) const;

  /// InputError naming the header line when the table has no such column.
  void require(std::string_view column) const { (void)index_of(column); }

  /// Every cell of a row, by column.
  [[nodiscard]] std::map<std::string, std::string, std::less<>> cells(const CsvRow& row) const;
  /// The cell's text; InputError when the table has no such column.
  [[nodiscard]] const std::string& text(const CsvRow& row, std::string_view column) const;
  /// Empty cells are absent; text in a number, NaN, infinities and values below `low` are errors.
  [[nodiscard]] std::optional<double> number(const CsvRow& row, std::string_view column,
                                             double low) const;
  [[nodiscard]] std::optional<std::int64_t> integer(const CsvRow& row, std::string_view column,
                                                    std::int64_t low) const;
  /// InputError at the header line.
  [[noreturn]] void fail_header(const std::string& message, std::string hint = {}) const;
  [[noreturn]] void fail(const CsvRow& row, std::string_view column, const std::string& message,
                         std::string hint = {}) const;

 private:
  [[nodiscard]] std::size_t index_of(std::string_view column) const;

  std::string file_;
  std::vector<std::string> header_;
  std::vector<CsvRow> rows_;
};

}  // namespace plansearch::io
