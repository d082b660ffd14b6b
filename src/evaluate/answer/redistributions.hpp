// SPDX-License-Identifier: Apache-2.0
// Redistributions of a plan, for reports.
#pragma once

#include <vector>

#include "evaluate/block/profile_maker.hpp"
#include "evaluate/step/pricing_input.hpp"
#include "plansearch/redistribution_report.hpp"

namespace plansearch {

/// Inside blocks, then between stages; each block once for every way in which stages split it.
[[nodiscard]] std::vector<Redistribution> redistributions_of(const ProfileMaker& profiles,
                                                             const PricingInput& view);

}  // namespace plansearch
