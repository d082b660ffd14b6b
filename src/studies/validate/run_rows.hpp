// SPDX-License-Identifier: Apache-2.0
// The rows of a small table one by one: predicted beside measured, and what the worst one is made
// of.
#pragma once

#include <string>

#include "studies/validate/run_report.hpp"

namespace plansearch {

/// Tables of up to this many rows are shown row by row, without groups nobody asked for.
inline constexpr std::size_t kFewRows = 40;

[[nodiscard]] std::string rows_text(const RunReport& report, int columns);

}  // namespace plansearch
