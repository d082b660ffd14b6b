// SPDX-License-Identifier: Apache-2.0
// What there is to choose from: shipped files, schedules, targets of exports, settings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/listing.hpp"

namespace plansearch {

/// One of `listing_names()`.
[[nodiscard]] Listing shipped_listing(std::string_view what);

/// What there is to list.
[[nodiscard]] std::vector<std::string> listing_names();

}  // namespace plansearch
