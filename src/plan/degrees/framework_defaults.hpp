// SPDX-License-Identifier: Apache-2.0
// Defaults of a framework: one source for given plans and measured runs.
#pragma once

#include "plansearch/data_type.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

/// Degrees that the framework cannot switch off (its `always:`).
[[nodiscard]] PinnedDegrees fixed_degrees(const Framework& framework);

/// The framework's own defaults (its `defaults:`) for every degree that is not `chosen`, and its
/// fixed degrees over what is chosen; sequence parallelism where there are tensor ranks.
[[nodiscard]] PlanDegrees with_defaults(PlanDegrees plan, const PinnedDegrees& chosen,
                                        const Framework& framework);

/// The same; where the plan cannot have a default, the nearest it can have: the next lower ZeRO
/// stage, else a higher one; no sequence parallelism; no recomputation. As it is where none helps.
[[nodiscard]] PlanDegrees with_legal_defaults(PlanDegrees plan, const PinnedDegrees& chosen,
                                              const Network& network, const Framework& framework,
                                              DataType precision);

/// Default number of sequences of a micro-batch: the plan's own under a framework that accumulates,
/// or where the batch does not divide; else a replica's share, split over the stages.
[[nodiscard]] int usual_micro_batch(const PlanDegrees& plan, std::int64_t batch,
                                    const Framework& framework);

}  // namespace plansearch
