// SPDX-License-Identifier: Apache-2.0
// Placements that run every linear operator of the layers in steps over a square of devices.
#pragma once

#include <variant>

#include "plansearch/placement_names.hpp"

namespace plansearch {

/// Squares of side x side devices inside the tensor group, neighbours in a row; what is left of the
/// group lies around them and cuts heads and features as it would without them. Rows cut sequences,
/// or tokens where a micro-batch has too few of them; columns cut features. Everything else in the
/// layers, and what they hand on, lies over rows and columns too; experts, embedding and head stay
/// as they are.
[[nodiscard]] std::variant<PlacementNames, PlacementFault> square_placements(
    const Network& network, const PlanDegrees& degrees, int side);

}  // namespace plansearch
