// SPDX-License-Identifier: Apache-2.0
// What is alive when the fullest device of a plan holds most.
#pragma once

#include "evaluate/block/profile_maker.hpp"
#include "evaluate/step/pricing_input.hpp"
#include "plansearch/evaluation.hpp"

namespace plansearch {

[[nodiscard]] PeakReport held_at_peak(const ProfileMaker& profiles, const PricingInput& view,
                                      EvaluationWorkspace& workspace);

}  // namespace plansearch
