// SPDX-License-Identifier: Apache-2.0
#include "report/listing.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "report/columns.hpp"

namespace plansearch {

std::string render_listing(const Listing& listing, Format format, int columns) {
  nlohmann::ordered_json items = nlohmann::ordered_json::array();
  TextTable table(listing.columns);
  for (const auto& row : listing.rows) {
    nlohmann::ordered_json& item = items.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) item[listing.keys[i]] = row[i];
    table.add_row({row.begin(), row.end()});
  }
  return render_answer({std::move(items)}, format, [&] { return table.text(columns); });
}

}  // namespace plansearch
