// SPDX-License-Identifier: Apache-2.0
// An answer as one page for a browser, and its pictures, which are files of their own as well.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "evaluate/step/priced_program.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/report.hpp"
#include "report/comparison.hpp"
#include "report/page/pictures.hpp"

namespace plansearch::page {

/// page.html: the template of pages, with their style and script.
extern const std::string_view kPage;

struct PageContent {
  const SearchReport* report = nullptr;
  const LadderReport* ladder = nullptr;  ///< where sizes were searched; its chosen rung is `report`
  const PricedProgram* program = nullptr;          ///< of plan 1; null where nothing fits
  int micro_batches = 0;                           ///< of plan 1; the program may have fewer
  const Problem* problem = nullptr;                ///< of plan 1
  const SensitivityReport* sensitivity = nullptr;  ///< of plan 1, where the user asked for it
};

/// HTML of less than two megabytes that needs nothing else: the same bytes for the same answer.
[[nodiscard]] std::string search_page(const PageContent& content);

struct PlotRow {
  std::string_view name;
  std::string_view needs;  ///< the kind of answer that has it
  Figure (*draw)(const PageContent& content);
};
[[nodiscard]] std::span<const PlotRow> plots();

/// Every axis with more than one rank: how many, how far apart, over how many nodes.
[[nodiscard]] TextTable group_table(const PlanDegrees& plan, const Problem& problem);

}  // namespace plansearch::page
