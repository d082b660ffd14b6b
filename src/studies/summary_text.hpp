// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plansearch/studies/run_report.hpp"

namespace plansearch {

/// The summary as aligned tables: step time, memory, ranking, feasibility, rows left out.
[[nodiscard]] std::string summary_text(const RunReport& report);
/// "3.4" for 0.034.
[[nodiscard]] std::string percent_cell(double ratio);

}  // namespace plansearch
