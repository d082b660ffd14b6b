// SPDX-License-Identifier: Apache-2.0
// Plans of a space of degrees whose operators are placed as a plan file says.
#pragma once

#include <memory>

#include "search/strategies/strategy.hpp"

namespace plansearch {

/// Prices the plans of a walk with these placements, the lowest bound first, as far as they may
/// rank. A plan that the placements do not fit is rejected.
[[nodiscard]] SearchPart constrained_part(std::shared_ptr<const LegalWalk> walk,
                                          std::shared_ptr<const Placements> placements);

}  // namespace plansearch
