// SPDX-License-Identifier: Apache-2.0
#include "report/columns.hpp"

#include "report/csv_text.hpp"
#include "report/json_text.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

/// Spreadsheets run a text that begins like a formula: a ' before it makes it a text again.
std::string text_cell(std::string text) {
  const bool formula =
      text.size() > 1 && std::string_view("=+-@").find(text[0]) != std::string::npos;
  return formula ? "'" + text : text;
}

std::string cell_text(const Json& value) {
  if (value.is_string()) return text_cell(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  if (value.is_null()) return {};
  if (!value.is_array()) return json_text(value);
  std::string text;
  for (const Json& item : value) {
    if (!text.empty()) text += '/';
    text += cell_text(item);
  }
  return text;
}

}  // namespace

std::string csv_header(const Json& row) {
  CsvLine line;
  for (const auto& item : row.items()) line.add(item.key());
  return line.text();
}

std::string csv_line(const Json& row) {
  CsvLine line;
  for (const Json& value : row) line.add(cell_text(value));
  return line.text();
}

std::string render_answer(const Answer& answer, Format format,
                          const std::function<std::string()>& table) {
  require_finite(answer.document);
  if (format == Format::Table) return table();
  if (format == Format::Json) return json_text(answer.document, answer.indent) + "\n";
  const bool own_csv = format == Format::Csv && !answer.csv.is_null();
  const Json& rows = answer.document.is_array() ? answer.document : answer.document.at("rows");
  std::string text;
  for (const Json& row : own_csv ? answer.csv : rows) {
    if (format == Format::Csv && text.empty()) text = csv_header(row);
    text += format == Format::Csv ? csv_line(row) : json_text(row) + "\n";
  }
  return text;
}

}  // namespace plansearch
