// SPDX-License-Identifier: Apache-2.0
// Runs whose pipeline has layers as somebody listed them.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "plansearch/evaluator.hpp"

namespace plansearch {

/// "4x15,1": the layers of every chunk in the order in which micro-batches pass them. InputError
/// without a place for other text.
[[nodiscard]] std::vector<std::int64_t> read_stage_layers(const std::string& text);

/// The plan with its layers so; what comes before the first one is in the first chunk, what comes
/// behind the last one in the last. Infeasible where the numbers are not those of the plan.
[[nodiscard]] std::variant<ParallelPlan, Infeasible> with_stage_layers(
    const PlanEvaluator& evaluator, const PlanDegrees& plan,
    const std::vector<std::int64_t>& layers);

}  // namespace plansearch
