// SPDX-License-Identifier: Apache-2.0
// Plans whose linear operators gather their input, or scatter their sum, under the product.
#pragma once

#include <memory>
#include <optional>

#include "plansearch/degrees.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/network.hpp"
#include "plansearch/placements.hpp"

namespace plansearch {

/// Every linear operator of the layers, cut as Megatron cuts it, with its rows on a ring over the
/// tensor group: what sequence parallelism gathers and scatters before and after it (collective
/// matmul, asynchronous tensor parallelism). Everything else by role.
[[nodiscard]] std::shared_ptr<const Placements> ring_placements(const Network& network,
                                                                int tensor_ranks);

/// Whether operators of the framework run in these steps.
[[nodiscard]] std::optional<Infeasible> check_steps(const Framework& framework,
                                                    OperatorSteps steps);
/// Why a plan of these degrees cannot run over rings, where they say so.
[[nodiscard]] std::optional<Infeasible> check_rings(const PlanDegrees& degrees,
                                                    const Network& network,
                                                    const Framework& framework);

}  // namespace plansearch
