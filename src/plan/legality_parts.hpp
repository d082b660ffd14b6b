// SPDX-License-Identifier: Apache-2.0
// Parts of the legality check; not installed.
#pragma once

#include <optional>
#include <string>

#include "plansearch/plan/legality.hpp"

namespace plansearch::legality {

/// "1, 2, 5": the divisors of `number` up to `limit`.
[[nodiscard]] std::string divisors(std::int64_t number, std::int64_t limit);

[[nodiscard]] std::optional<Infeasible> check_layers(const ParallelPlan& plan,
                                                     const Network& network,
                                                     const Framework& framework);
[[nodiscard]] std::optional<Infeasible> check_rules(const ParallelPlan& plan,
                                                    const Network& network,
                                                    const Framework& framework);

}  // namespace plansearch::legality
