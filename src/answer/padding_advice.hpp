// SPDX-License-Identifier: Apache-2.0
// Which width of a network would make a plan faster if it were padded: tried before it is said.
#pragma once

#include <optional>
#include <string>

#include "plansearch/evaluator.hpp"

namespace plansearch {

/// The vocabulary or inner width whose slices leave kernels rows of no whole vectors, what pays for
/// it, and what padding it saves. `step` is the plan's own, without its site.
[[nodiscard]] std::optional<std::string> padding_advice(const Problem& problem,
                                                        const ParallelPlan& plan, Seconds step);

}  // namespace plansearch
