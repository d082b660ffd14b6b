// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "studies/validate/run_summary.hpp"

namespace plansearch {

/// {rows, mean, median, p90, bias} of absolute relative errors; numbers are null without rows.
[[nodiscard]] nlohmann::ordered_json errors_json(const ErrorSummary& errors);
/// One entry of summary[].
[[nodiscard]] nlohmann::ordered_json summary_json(const std::string& set,
                                                  const GroupSummary& group);

}  // namespace plansearch
