// SPDX-License-Identifier: Apache-2.0
// plansearch/result/v1: keys carry base units, docs/schema/result.v1.schema.json describes them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plansearch/report.hpp"

namespace plansearch {

[[nodiscard]] nlohmann::ordered_json to_json(const PlanSummary& plan);
[[nodiscard]] nlohmann::ordered_json to_json(const PlanReport& plan);
/// The same with what training on the tokens of the question takes, where it asks.
[[nodiscard]] nlohmann::ordered_json plan_json(const QuestionReport& question,
                                               const PlanReport& plan);
[[nodiscard]] nlohmann::ordered_json to_json(const SearchReport& report);

}  // namespace plansearch
