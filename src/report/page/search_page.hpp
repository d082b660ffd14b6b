// SPDX-License-Identifier: Apache-2.0
// An answer as one page that needs nothing else: for those who did not ask the question.
#pragma once

#include <string>

#include "evaluate/step/priced_program.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/report.hpp"

namespace plansearch::page {

struct SearchPage {
  const SearchReport* report = nullptr;
  const LadderReport* ladder = nullptr;  ///< where sizes were searched; its chosen rung is `report`
  const PricedProgram* program = nullptr;  ///< of plan 1; null where nothing fits
  int micro_batches = 0;                   ///< of plan 1; the program may have fewer
  const Problem* problem = nullptr;        ///< of plan 1
};

/// HTML of less than two megabytes: the same bytes for the same answer.
[[nodiscard]] std::string search_page(const SearchPage& content);

}  // namespace plansearch::page
