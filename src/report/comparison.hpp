// SPDX-License-Identifier: Apache-2.0
// Two plans side by side: where the difference in step time and memory comes from.
#pragma once

#include <optional>
#include <string>

#include "plansearch/report.hpp"
#include "report/sensitivity.hpp"
#include "report/text_table.hpp"

namespace plansearch {

/// What a plan is set against.
struct Rival {
  std::string name;  ///< "the best other plan", or that of a given one
  QuestionReport question;
  PlanReport plan;
};

/// Parts of the step and of memory, and the difference of each.
[[nodiscard]] TextTable comparison_table(const PlanReport& plan, const Rival& rival);
/// What the rival is, and how much faster or slower.
[[nodiscard]] std::string comparison_line(const PlanReport& plan, const Rival& rival);
/// Both, with the plan itself.
[[nodiscard]] std::string compare_plans(const PlanReport& plan, const Rival& rival, int columns);

/// The report as JSON with what the rival has more of (`comparison`), and what the step depends on
/// (`sensitivity`), as far as they are there.
[[nodiscard]] std::string explained_json(const SearchReport& report,
                                         const std::optional<Rival>& rival,
                                         const std::optional<SensitivityReport>& sensitivity);

}  // namespace plansearch
