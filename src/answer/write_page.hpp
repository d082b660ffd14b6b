// SPDX-License-Identifier: Apache-2.0
// Answers as pages for a browser, and their pictures.
#pragma once

#include <string>
#include <vector>

#include "plansearch/load_problem.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/report.hpp"
#include "report/schedule_report.hpp"

namespace plansearch {

/// The first plan of an answer as it was priced, with its problem.
struct PricedPlan {
  Problem problem;
  ParallelPlan plan;
};
/// The report has a plan.
[[nodiscard]] PricedPlan priced_plan(const ResolvedQuestion& asked, const SearchReport& report);

/// Writes the answer of a search, or of a ladder with its chosen size, as one page; no name: none.
/// InputError for a file that cannot be written.
void write_page(const std::string& file, const ResolvedQuestion& asked, const SearchReport& report,
                int threads, const LadderReport* ladder = nullptr);

/// The fault of an argument such as "step=step.svg"; empty: none.
[[nodiscard]] std::string plot_problem(const std::string& plot);

/// Writes pictures of plan 1, or of all, as SVG: each "NAME=FILE", legal by plot_problem.
/// InputError for a picture that the answer does not have, with what has it.
void write_plots(const std::vector<std::string>& plots, const ResolvedQuestion& asked,
                 const SearchReport& report, const LadderReport* ladder = nullptr);

struct TraceFile {
  std::string name;    ///< empty: none is written
  bool force = false;  ///< however many events it has
};

/// One step of a legal plan, or of a schedule by itself. Throws InputError for more than a million
/// events that are not forced.
void write_trace(const Problem& problem, const ParallelPlan& plan, const TraceFile& file);
void write_trace(const ScheduleReport& report, const TraceFile& file);

}  // namespace plansearch
