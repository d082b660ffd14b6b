// SPDX-License-Identifier: Apache-2.0
// What there is to choose from: shipped hardware, models and frameworks, and schedules.
#pragma once

#include <string>

#include "report/listing.hpp"

namespace plansearch {

/// `what`: hw, models, frameworks or schedules.
[[nodiscard]] Listing shipped_listing(const std::string& what);

}  // namespace plansearch
