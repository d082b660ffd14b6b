// SPDX-License-Identifier: Apache-2.0
#include "report/listing.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "report/csv_text.hpp"
#include "report/json_text.hpp"

namespace plansearch {
namespace {

std::string csv_of(const std::vector<std::string>& cells) {
  CsvLine line;
  for (const std::string& cell : cells) line.add(cell);
  return line.text();
}

std::string csv(const Listing& listing) {
  std::string text = csv_of(listing.keys);
  for (const auto& row : listing.rows) text += csv_of(row);
  return text;
}

std::string json(const Listing& listing, Format format) {
  nlohmann::ordered_json items = nlohmann::ordered_json::array();
  for (const auto& row : listing.rows) {
    nlohmann::ordered_json item;
    for (std::size_t i = 0; i < row.size(); ++i) item[listing.keys[i]] = row[i];
    items.push_back(std::move(item));
  }
  if (format == Format::Json) return json_text(items, 2) + "\n";
  std::string text;
  for (const auto& item : items) text += json_text(item) + "\n";
  return text;
}

}  // namespace

std::string render_listing(const Listing& listing, Format format, int columns) {
  if (format == Format::Csv) return csv(listing);
  if (format != Format::Table) return json(listing, format);
  TextTable table(listing.columns);
  for (const auto& row : listing.rows) table.add_row({row.begin(), row.end()});
  return table.text(columns);
}

}  // namespace plansearch
