// SPDX-License-Identifier: Apache-2.0
// Lists to choose from: shipped files, schedules, targets of exports, settings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plansearch/report.hpp"

namespace plansearch {

/// One of `listing_names()`, as a table, CSV or JSON.
[[nodiscard]] std::string list_shipped(std::string_view what, Format format, int columns);

/// The names of all lists.
[[nodiscard]] std::vector<std::string> listing_names();

}  // namespace plansearch
