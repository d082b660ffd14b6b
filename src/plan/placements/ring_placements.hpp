// SPDX-License-Identifier: Apache-2.0
// Placements of linear operators that run in steps: on rings, which gather their input or scatter
// their sum under the product, and over squares of devices.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "plansearch/degrees.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/network.hpp"
#include "plansearch/placements.hpp"

namespace plansearch {

/// Every linear operator of the layers, cut as Megatron cuts it, with its rows on a ring over the
/// tensor group, in place of the gathers and scatters of sequence parallelism (collective matmul,
/// asynchronous tensor parallelism). Everything else by role.
[[nodiscard]] std::shared_ptr<const Placements> ring_placements(const Network& network,
                                                                int tensor_ranks);

/// Whether operators of the framework run in these steps.
[[nodiscard]] std::optional<Infeasible> check_steps(const Framework& framework,
                                                    OperatorSteps steps);
/// Why a plan of these degrees cannot run over rings, where they say so.
[[nodiscard]] std::optional<Infeasible> check_rings(const PlanDegrees& degrees,
                                                    const Network& network,
                                                    const Framework& framework);

/// Squares of side x side devices inside the tensor group, neighbours in a row; the rest of the
/// group lies around them and cuts heads and features as it would without them. Rows cut sequences,
/// or tokens where a micro-batch has too few of them; columns cut features. Everything else in the
/// layers, and the tensors that they hand on, lies over rows and columns too; experts, embedding
/// and head stay as they are.
[[nodiscard]] std::variant<PlacementNames, PlacementFault> square_placements(
    const Network& network, const PlanDegrees& degrees, int side);

}  // namespace plansearch
