// SPDX-License-Identifier: Apache-2.0
// What there is to choose from: shipped files, schedules, targets of exports, settings.
#pragma once

#include <string>

#include "report/listing.hpp"

namespace plansearch {

/// `what`: hw, models, frameworks, schedules, exporters or settings.
[[nodiscard]] Listing shipped_listing(const std::string& what);

}  // namespace plansearch
