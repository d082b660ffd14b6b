// SPDX-License-Identifier: Apache-2.0
// A plan against another one, and against itself with one value of the data files changed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/answer/goodput.hpp"
#include "plansearch/report.hpp"
#include "report/text_table.hpp"

namespace plansearch {

struct SensitivityRow {
  std::string key;    ///< as --set takes it
  std::string value;  ///< as the file says it
  std::optional<Evidence> evidence;
  double step_change = 0.0;  ///< ratio of step times, less 1, where the value is a tenth higher
  Bytes memory_change;       ///< of the peak
};

struct SensitivityReport {
  double factor = 1.1;               ///< by which each value is raised
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

/// A question with its best plan, or a given plan.
struct ComparedRow {
  QuestionReport question;
  std::string name;                  ///< of a given plan, else empty
  std::string schedule;              ///< that its plans were asked to have; empty: any
  std::string set;                   ///< values of data files that the question changes
  std::optional<PlanReport> plan;    ///< nothing where none runs
  std::string why_none;              ///< then
  bool fits = true;                  ///< memory; a given plan may exceed it
  std::optional<double> speed;       ///< tokens per second over those of the first row
  std::optional<double> speed_p10;   ///< 80 % of outcomes of `speed`; errors that both rows share
  std::optional<double> speed_p90;   ///< cancel
  bool tie_with_first = false;       ///< less than 80 % sure which of the two is faster
  bool measured = true;              ///< any number of the machine's profile
  int accelerators_per_node = 1;     ///< of a plan's machine
  std::optional<Goodput> goodput{};  ///< of the job, where failures were asked about
  std::string advice;                ///< a batch that suits the machine better, in words
};

struct ComparisonReport {
  std::vector<ComparedRow> rows;
  std::vector<std::string> evidence;  ///< of every profile and framework file, each once
  std::vector<std::string> notes;     ///< on the questions, each once
};

/// One row each; what all rows have in common is said above the table.
[[nodiscard]] std::string render_comparison(const ComparisonReport& report, Format format,
                                            int columns = 0);

}  // namespace plansearch
