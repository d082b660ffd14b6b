// SPDX-License-Identifier: Apache-2.0
// A plan against another one, and against itself with one value of the data files changed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/report.hpp"
#include "report/text_table.hpp"

namespace plansearch {

struct SensitivityRow {
  std::string key;    ///< as --set takes it
  std::string value;  ///< as the file says it
  std::optional<Evidence> evidence;
  double step_change = 0.0;  ///< ratio of step times, less 1, where the value is a tenth higher
  Bytes memory_change;       ///< of the peak
  /// The value that gives the step that is asked for; absent: this value alone cannot.
  std::optional<std::string> needed{};
};

struct SensitivityReport {
  double factor = 1.1;               ///< by which each value is raised
  std::optional<Seconds> goal{};     ///< a step that is asked for
  std::vector<SensitivityRow> rows;  ///< the largest change first
  int without_effect = 0;            ///< values that move nothing
  std::vector<std::string> refused;  ///< keys that cannot be changed alone
};

/// The values that move most.
[[nodiscard]] TextTable sensitivity_table(const SensitivityReport& report);
[[nodiscard]] std::string sensitivity_text(const SensitivityReport& report, int columns);
[[nodiscard]] nlohmann::ordered_json to_json(const SensitivityReport& report);

/// The plan that another one is compared with.
struct Rival {
  std::string name;  ///< "the best other plan", or that of a given one
  QuestionReport question;
  PlanReport plan;
};

/// Parts of the step and of memory, and the difference of each.
[[nodiscard]] TextTable comparison_table(const PlanReport& plan, const Rival& rival);
/// The rival in words, and how much faster or slower it is.
[[nodiscard]] std::string comparison_line(const PlanReport& plan, const Rival& rival);
/// Both, with the plan itself.
[[nodiscard]] std::string compare_plans(const PlanReport& plan, const Rival& rival, int columns);

/// The report as JSON with what the rival has more of (`comparison`), and what the step depends on
/// (`sensitivity`), as far as they are there.
[[nodiscard]] std::string explained_json(const SearchReport& report,
                                         const std::optional<Rival>& rival,
                                         const std::optional<SensitivityReport>& sensitivity);

}  // namespace plansearch
