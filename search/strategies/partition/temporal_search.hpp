// SPDX-License-Identifier: Apache-2.0
// Plans whose operators are cut one by one, along one dimension or by sequences of dimensions and
// squares of devices: the best sum of every tensor group, written as placements and priced as any
// plan.
#pragma once

#include <string>

#include "search/strategies/partition/partition_planner.hpp"
#include "search/strategies/strategy.hpp"

namespace plansearch {

/// Whether the framework runs squares over a tensor group that the request admits.
[[nodiscard]] bool runs_squares(const Framework& framework, const SearchRequest& request);

/// For every tensor degree that the options cut, every micro-batch and recompute level: the
/// choice of least sum that has room, with rings hidden and not, where it may rank; beside
/// sequences the plan of the same degrees by role. Pipelines as asked for. Ranks are by the priced
/// step. InputError for sequences over a tensor degree that is not a power of two.
[[nodiscard]] SearchPart sequence_part(std::string space, const SearchRequest& request,
                                       PartitionSpace sequences);

}  // namespace plansearch
