// SPDX-License-Identifier: Apache-2.0
// operators[] of a plan, for reports.
#pragma once

#include <vector>

#include "evaluate/block/profile_maker.hpp"
#include "evaluate/step/pricing_input.hpp"
#include "plansearch/evaluation.hpp"

namespace plansearch {

/// Every operator that one position runs, block by block in the order of the network; operators
/// that take no time (views, members of a fused launch) are left out.
[[nodiscard]] std::vector<OperatorReport> operators_at(const ProfileMaker& profiles,
                                                       const PricingInput& view, int position);

}  // namespace plansearch
