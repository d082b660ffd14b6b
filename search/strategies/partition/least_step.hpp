// SPDX-License-Identifier: Apache-2.0
// What no plan whose operators are cut one by one is faster than.
#pragma once

#include <vector>

#include "plansearch/plan.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// Seconds of a step at least. `kernels`: the least of one micro-batch through one copy of a block,
/// by index into Network::blocks; `plan`: which blocks lie where.
[[nodiscard]] Seconds least_step(const std::vector<Seconds>& kernels, const ParallelPlan& plan);

}  // namespace plansearch
