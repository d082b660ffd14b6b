// SPDX-License-Identifier: Apache-2.0
// Plans whose linear operators gather their input, or scatter their sum, under the product.
#pragma once

#include <optional>
#include <variant>

#include "plansearch/degrees.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/network.hpp"
#include "plansearch/placement_names.hpp"

namespace plansearch {

/// Every linear operator of the layers, cut as Megatron cuts it, with its rows on a ring over the
/// tensor group: what sequence parallelism gathers and scatters before and after it (collective
/// matmul, asynchronous tensor parallelism). Everything else by role.
[[nodiscard]] std::variant<PlacementNames, PlacementFault> ring_placements(
    const Network& network, const PlanDegrees& degrees);

/// The same as a plan of this network has it (`Transform::placements`); nothing where products do
/// not divide.
[[nodiscard]] std::optional<Placements> ring_choice(const Network& network,
                                                    const PlanDegrees& degrees,
                                                    const Framework& framework);

}  // namespace plansearch
