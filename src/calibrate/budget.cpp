// SPDX-License-Identifier: Apache-2.0
#include "calibrate/budget.hpp"

#include "base/units.hpp"

namespace plansearch::calibrate {

std::optional<double> parse_budget(const std::string& text) {
  constexpr double kMinute = 60.0;
  std::optional<double> seconds = parse_number(text);
  if (!seconds && text.ends_with('m')) {
    seconds = parse_number(text.substr(0, text.size() - 1));
    if (seconds) *seconds *= kMinute;
  }
  if (!seconds) {
    if (const auto time = parse_quantity<Seconds>(text)) seconds = time->value();
  }
  return seconds && *seconds > 0.0 ? seconds : std::nullopt;
}

}  // namespace plansearch::calibrate
