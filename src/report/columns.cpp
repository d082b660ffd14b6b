// SPDX-License-Identifier: Apache-2.0
#include "report/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plansearch/error.hpp"

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

/// Goes down to the first number that is not finite and names it on the way back.
bool find_infinite(const Json& value, std::string& path) {
  if (value.is_number_float()) return !std::isfinite(value.get<double>());
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (!find_infinite(value[i], path)) continue;
      path = fmt::format("[{}]{}", i, path);
      return true;
    }
  }
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      if (!find_infinite(item, path)) continue;
      path = fmt::format(".{}{}", key, path);
      return true;
    }
  }
  return false;
}

}  // namespace

std::int64_t whole_bytes(Bytes bytes) {
  constexpr double kMost = 9e18;  // of an integer of 64 bits
  return std::llround(std::min(bytes.value(), kMost));
}

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

void require_finite(const Json& answer) {
  std::string path;
  if (!find_infinite(answer, path)) return;
  if (path.starts_with('.')) path.erase(0, 1);
  throw InputError(
      {}, fmt::format("the answer has no finite {}", path),
      "a number of the profile, the model, the framework or the table is far from that "
      "of any machine");
}

std::string json_text(const Json& answer, int indent) {
  require_finite(answer);
  return answer.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace plansearch
