// SPDX-License-Identifier: Apache-2.0
// Plans of a space of degrees whose operators are placed, or blocks shared, as a plan file says, or
// lie over squares of devices.
#pragma once

#include <memory>

#include "plansearch/search.hpp"
#include "search/strategies/strategy.hpp"

namespace plansearch {

/// Prices the plans of a walk with the placements, squares and shared blocks of the request, the
/// lowest bound first, as far as they may rank. A plan that they do not fit is rejected.
[[nodiscard]] SearchPart constrained_part(std::shared_ptr<const LegalWalk> walk,
                                          SearchRequest request);

}  // namespace plansearch
