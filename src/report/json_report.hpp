// SPDX-License-Identifier: Apache-2.0
// plansearch/result/v1: keys carry base units, docs/schema/result.v1.schema.json describes them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plansearch/report.hpp"

namespace plansearch {

[[nodiscard]] nlohmann::ordered_json to_json(const PlanSummary& plan);
[[nodiscard]] nlohmann::ordered_json to_json(const PlanReport& plan);
[[nodiscard]] nlohmann::ordered_json to_json(const SearchReport& report);

}  // namespace plansearch
