// SPDX-License-Identifier: Apache-2.0
// communication[] and stages[] of a plan, for reports.
#pragma once

#include <vector>

#include "evaluate/block/profile_maker.hpp"
#include "evaluate/step/pricing_input.hpp"
#include "plansearch/evaluation.hpp"

namespace plansearch {

/// Everything the busiest device sends in a step, one line for messages that are alike.
[[nodiscard]] std::vector<PricedCommunication> communication_of(const ProfileMaker& profiles,
                                                                const PricingInput& view,
                                                                EvaluationWorkspace& workspace);

/// One row per position, first to last.
[[nodiscard]] std::vector<StageReport> stages_of_view(const PricingInput& view,
                                                      EvaluationWorkspace& workspace);

}  // namespace plansearch
