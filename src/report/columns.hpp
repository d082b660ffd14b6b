// SPDX-License-Identifier: Apache-2.0
// One list of columns for every form of an answer: keys of JSON, columns of CSV and of tables.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "plansearch/quantity.hpp"
#include "plansearch/report.hpp"
#include "report/text_table.hpp"

namespace plansearch {

/// Bytes are whole numbers in answers.
[[nodiscard]] std::int64_t whole_bytes(Bytes bytes);

/// The value, of quantities in base units; null for nothing, and for what is only in tables.
template <typename T>
[[nodiscard]] nlohmann::ordered_json json_of(const T& value) {
  if constexpr (std::is_same_v<T, Cell>) {
    return nullptr;
  } else if constexpr (std::is_same_v<T, Bytes>) {
    return whole_bytes(value);
  } else if constexpr (requires { value.has_value(); }) {
    return value ? json_of(*value) : nlohmann::ordered_json(nullptr);
  } else if constexpr (requires { value.value(); }) {
    return value.value();
  } else {
    return value;
  }
}
/// The same; null for an empty text too.
template <typename T>
[[nodiscard]] nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return json_of(value);
}
[[nodiscard]] inline nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

/// The cell of a value that is shown as it is.
template <typename T>
[[nodiscard]] Cell shown_as_is(const T& value) {
  if constexpr (std::is_same_v<T, nlohmann::ordered_json>) {
    return value.template get<std::string>();
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    return std::string(value);
  } else {
    return value;
  }
}

/// A value of a row in every form. `get` is a function of the row or a member of it.
template <typename Row>
struct Column {
  using Value = std::function<nlohmann::ordered_json(const Row&)>;
  using Shown = std::function<Cell(const Row&)>;

  Column(std::string_view in_files, Value of, TextColumn in_tables, Shown shown)
      : key(in_files), value(std::move(of)), title(std::move(in_tables)), cell(std::move(shown)) {}
  /// In JSON and CSV.
  template <typename Get>
  Column(std::string_view in_files, Get get)
      : Column(in_files, [get](const Row& row) { return json_of(std::invoke(get, row)); }, {}, {}) {
  }
  /// In tables as well, as it is.
  template <typename Get>
  Column(std::string_view in_files, Get get, TextColumn in_tables) : Column(in_files, get) {
    title = std::move(in_tables);
    cell = [get](const Row& row) { return shown_as_is(std::invoke(get, row)); };
  }
  /// In tables as `show` makes it of the value, or of the row.
  template <typename Get, typename Show>
  Column(std::string_view in_files, Get get, TextColumn in_tables, Show show)
      : Column(in_files, get) {
    title = std::move(in_tables);
    cell = [get, show](const Row& row) -> Cell {
      if constexpr (std::is_invocable_v<Show, const Row&>) {
        return show(row);
      } else {
        return show(std::invoke(get, row));
      }
    };
  }

  std::string_view key;  ///< in JSON and CSV; empty: only in tables
  Value value;
  TextColumn title;  ///< in tables; empty: not there
  Shown cell;
};
template <typename Row>
using Columns = std::vector<Column<Row>>;

template <typename Row>
[[nodiscard]] nlohmann::ordered_json object_of(const Columns<Row>& columns, const Row& row) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const Column<Row>& column : columns) {
    if (!column.key.empty()) object[std::string(column.key)] = column.value(row);
  }
  return object;
}

/// The results of `object` for all rows.
template <typename Rows, typename Object>
[[nodiscard]] nlohmann::ordered_json array_of(const Rows& rows, const Object& object) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const auto& row : rows) array.push_back(object(row));
  return array;
}

template <typename Row>
[[nodiscard]] nlohmann::ordered_json objects_of(const Columns<Row>& columns,
                                                const std::vector<Row>& rows) {
  return array_of(rows, [&](const Row& row) { return object_of(columns, row); });
}

template <typename Row>
[[nodiscard]] TextTable table_of(const Columns<Row>& columns, const std::vector<Row>& rows) {
  std::vector<const Column<Row>*> shown;
  std::vector<TextColumn> titles;
  for (const Column<Row>& column : columns) {
    if (column.title.title.empty()) continue;
    shown.push_back(&column);
    titles.push_back(column.title);
  }
  TextTable table(std::move(titles));
  for (const Row& row : rows) {
    std::vector<Cell> cells;
    for (const Column<Row>* column : shown) cells.push_back(column->cell(row));
    table.add_row(std::move(cells));
  }
  return table;
}

/// Appends the columns of tables of a part of the row; "-" where it is absent.
template <typename Row, typename Part>
void append(Columns<Row>& columns, const Columns<Part>& more,
            const std::function<std::optional<Part>(const Row&)>& part) {
  for (const Column<Part>& column : more) {
    if (column.title.title.empty()) continue;
    const auto cell = [column, part](const Row& row) {
      const std::optional<Part> found = part(row);
      return found ? column.cell(*found) : Cell("-");
    };
    columns.push_back({"", cell, column.title});
  }
}

/// An answer for programs: its items or `rows` are the lines of JSON lines and of CSV.
struct Answer {
  nlohmann::ordered_json document;
  nlohmann::ordered_json csv{};  ///< flat rows; absent: those of the document
  int indent = 2;
};

/// In any format; `table` makes the text for people. Throws as require_finite.
[[nodiscard]] std::string render_answer(const Answer& answer, Format format,
                                        const std::function<std::string()>& table);

/// The keys of a flat row, its values (0 and 1 for switches, "1/2" for lists); each a line.
[[nodiscard]] std::string csv_header(const nlohmann::ordered_json& row);
[[nodiscard]] std::string csv_line(const nlohmann::ordered_json& row);

/// Throws InputError that names the first number that is not finite. Tables and CSV ask it too,
/// with the answer as JSON.
void require_finite(const nlohmann::ordered_json& answer);

/// The text of an answer: indented by `indent`, or on one line. Bytes that are not UTF-8 become
/// U+FFFD. Throws as require_finite.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& answer, int indent = -1);

class CsvLine {
 public:
  void add(std::string_view cell) {
    if (!text_.empty() || cells_ > 0) text_.push_back(',');
    ++cells_;
    if (cell.find_first_of(",\"\r\n") == std::string_view::npos) {
      text_.append(cell);
      return;
    }
    text_.push_back('"');
    for (const char c : cell) {
      if (c == '"') text_.push_back('"');
      text_.push_back(c);
    }
    text_.push_back('"');
  }

  [[nodiscard]] std::string text() const { return text_ + "\n"; }

 private:
  std::string text_;
  int cells_ = 0;
};

}  // namespace plansearch
