// SPDX-License-Identifier: Apache-2.0
#include "report/listing.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace plansearch {
namespace {

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted;
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return fmt::format("\"{}\"", quoted);
}

std::string csv(const Listing& listing) {
  std::string text = fmt::format("{}\n", fmt::join(listing.keys, ","));
  for (const auto& row : listing.rows) {
    std::vector<std::string> cells;
    for (const std::string& cell : row) cells.push_back(csv_cell(cell));
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

std::string json(const Listing& listing, Format format) {
  nlohmann::ordered_json items = nlohmann::ordered_json::array();
  for (const auto& row : listing.rows) {
    nlohmann::ordered_json item;
    for (std::size_t i = 0; i < row.size(); ++i) item[listing.keys[i]] = row[i];
    items.push_back(std::move(item));
  }
  if (format == Format::Json) return items.dump(2) + "\n";
  std::string text;
  for (const auto& item : items) text += item.dump() + "\n";
  return text;
}

}  // namespace

std::string render_listing(const Listing& listing, Format format) {
  if (format == Format::Csv) return csv(listing);
  if (format != Format::Table) return json(listing, format);
  TextTable table(listing.columns);
  for (const auto& row : listing.rows) table.add_row(row);
  return table.text();
}

}  // namespace plansearch
