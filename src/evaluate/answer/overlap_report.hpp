// SPDX-License-Identifier: Apache-2.0
// hidden[] of a plan, for reports.
#pragma once

#include <vector>

#include "evaluate/block/profile_maker.hpp"
#include "evaluate/step/priced_program.hpp"
#include "evaluate/step/pricing_input.hpp"
#include "plansearch/evaluation.hpp"

namespace plansearch {

/// Every message inside the passes of the blocks of one position that are simulated on streams, in
/// the order of issue; nothing for blocks whose framework hides by shares.
[[nodiscard]] std::vector<HiddenMessage> hidden_at(const ProfileMaker& profiles,
                                                   const PricingInput& view, int position);

/// Two copies of every such block, forward and backward, for traces.
[[nodiscard]] std::vector<BlockTimeline> timelines_at(const ProfileMaker& profiles,
                                                      const PricingInput& view, int position);

}  // namespace plansearch
