// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/output.hpp"
#include "cli/search_run.hpp"
#include "plansearch/error.hpp"
#include "problem/degrees.hpp"
#include "problem/given_plan.hpp"
#include "problem/make_report.hpp"
#include "report/comparison.hpp"
#include "report/pipeline_picture.hpp"

namespace plansearch::cli {
namespace {

struct Explained {
  SearchReport report;
  std::shared_ptr<const Framework> framework;
};

/// The ranked plans around the question; a given plan goes in front.
Explained explained(const Options& options, SearchRun& run) {
  const AskedPlan asked = complete_from_plan(options, options.plan);
  const bool given = !options.plan.empty();
  ProblemRequest search = asked.request;
  if (!given) {
    check_degrees(options.degrees);
    const SettledProblem inputs = load_problem(asked.request);
    check_degrees_fit(options.degrees, inputs.problem);
    if (!inputs.gpus) {
      throw InputError({}, "explain needs a plan or a number of GPUs",
                       "plansearch explain result.json#1, or plansearch explain --hw H --model M "
                       "--gpus N");
    }
    return {run.report(inputs, search, *inputs.gpus, "searching", NameMisses::Yes),
            inputs.problem.framework};
  }
  const GivenPlan plan = load_given_plan(asked);
  for (const std::string& note : plan.asked.notes) print_note(note, options);
  if (plan.inexpressible) throw InputError({}, *plan.inexpressible);
  const PlanEvaluator evaluator(plan.problem);
  SearchReport report = make_prediction(plan.asked, evaluator, plan.plan);
  search.degrees = {};
  SearchReport found =
      run.report(plan.asked, search, plan.problem.gpus, "looking for rivals", NameMisses::No);
  for (PlanReport& rival : found.plans) {
    if (plan.degrees && rival.plan == *plan.degrees) continue;
    rival.rank = static_cast<int>(report.plans.size()) + 1;
    rival.ties = {};
    report.plans.push_back(std::move(rival));
    break;
  }
  return {std::move(report), plan.problem.framework};
}

std::string explanation(const SearchReport& report, const Framework& framework, int columns) {
  SearchReport first = report;
  first.plans.resize(1);
  std::string text = render_prediction(first, Format::Table, columns);
  const std::string picture = pipeline_picture(first.plans.front(), framework);
  if (!picture.empty()) text += "\n" + picture;
  text += fmt::format("\none micro-batch on stage {}, before anything hides\n{}",
                      first.plans.front().estimate.busiest_stage,
                      operator_table(first.plans.front().operators, columns));
  if (report.plans.size() > 1)
    text += fmt::format("\n{}", compare_plans(report.plans[0], report.plans[1]));
  return text;
}

}  // namespace

int run_explain(const Options& options) {
  const Output output(options);
  Options searched = options;
  searched.top = 2;
  SearchRun run(searched);
  const auto [report, framework] = explained(options, run);
  const Format format = format_of(options);
  if (format != Format::Table || report.plans.empty()) {
    output.write(render_search(report, format));
  } else {
    output.write(explanation(report, *framework, columns_of(options)));
  }
  const bool fits = !report.plans.empty() && report.misses.empty();
  return exit_code_after(run, options, fits ? kExitOk : kExitInfeasible);
}

}  // namespace plansearch::cli
