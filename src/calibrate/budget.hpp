// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace plansearch::calibrate {

/// Seconds of "90", "90s", "2m", "1h" and of what a profile may write ("2 min"); nothing: neither
/// is it one of these nor above zero.
[[nodiscard]] std::optional<double> parse_budget(const std::string& text);

}  // namespace plansearch::calibrate
