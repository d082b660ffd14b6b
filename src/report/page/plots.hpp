// SPDX-License-Identifier: Apache-2.0
// Pictures of an answer by name: sections of its page, and files of their own.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "evaluate/step/priced_program.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/report.hpp"
#include "report/sensitivity.hpp"

namespace plansearch::page {

/// What a page shows.
struct PageContent {
  const SearchReport* report = nullptr;
  const LadderReport* ladder = nullptr;  ///< where sizes were searched; its chosen rung is `report`
  const PricedProgram* program = nullptr;          ///< of plan 1; null where nothing fits
  int micro_batches = 0;                           ///< of plan 1; the program may have fewer
  const Problem* problem = nullptr;                ///< of plan 1
  const SensitivityReport* sensitivity = nullptr;  ///< of plan 1, where somebody asked for it
};

/// Empty where the answer has nothing to draw.
[[nodiscard]] std::string ladder_plot(const PageContent& content);
[[nodiscard]] std::string step_plot(const PageContent& content);
[[nodiscard]] std::string memory_plot(const PageContent& content);
[[nodiscard]] std::string pareto_plot(const PageContent& content);
[[nodiscard]] std::string timeline_plot(const PageContent& content);
[[nodiscard]] std::string held_plot(const PageContent& content);
[[nodiscard]] std::string groups_plot(const PageContent& content);

struct PlotRow {
  std::string_view name;
  std::string_view needs;  ///< what an answer needs to have it
  std::string (*draw)(const PageContent& content);
};
[[nodiscard]] std::span<const PlotRow> plots();

/// A figure of a page as an SVG file that needs nothing else.
[[nodiscard]] std::string svg_file(std::string_view figure);

}  // namespace plansearch::page
