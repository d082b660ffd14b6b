// SPDX-License-Identifier: Apache-2.0
// Several questions, or given plans, beside the first of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluate/answer/goodput.hpp"
#include "plansearch/report.hpp"

namespace plansearch {

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
