// SPDX-License-Identifier: Apache-2.0
// Every measured row of a table beside what is predicted for it.
#pragma once

#include <string>
#include <vector>

#include "plansearch/report.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

struct ValidationRequest {
  std::string table;                  ///< CSV of measured runs, kernels or collectives
  std::vector<std::string> group_by;  ///< columns; empty: those of the kind of table
  std::string suspects;               ///< CSV (id, why) of rows to report apart
  std::string site{};                 ///< of rows that name none; empty: a typical one
  double min_mfu = 0.0;               ///< slower steps are left out of step-time errors
  int threads = 1;
  Format format = Format::Table;
  int columns = 0;  ///< characters to a line of tables and sentences; 0: as long as it takes
};

/// InputError for a table that is none, and for names that no row of it should have.
[[nodiscard]] std::string validate_table(const ValidationRequest& request, const ShippedData& data);

}  // namespace plansearch
