// SPDX-License-Identifier: Apache-2.0
// Rows of text, as a table, CSV or JSON.
#pragma once

#include <string>
#include <vector>

#include "plansearch/report.hpp"
#include "report/text_table.hpp"

namespace plansearch {

struct Listing {
  std::vector<TextColumn> columns;
  std::vector<std::string> keys;  ///< of JSON and CSV, by column
  std::vector<std::vector<std::string>> rows;
};

[[nodiscard]] std::string render_listing(const Listing& listing, Format format, int columns);

}  // namespace plansearch
