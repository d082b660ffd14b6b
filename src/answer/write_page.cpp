// SPDX-License-Identifier: Apache-2.0
#include "answer/write_page.hpp"

#include <algorithm>
#include <optional>
#include <variant>

#include "evaluate/step/priced_program.hpp"
#include "io/file.hpp"
#include "plan/stages/expand.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "report/page/search_page.hpp"
#include "report/plan_timeline.hpp"

namespace plansearch {

PricedPlan priced_plan(const ResolvedQuestion& asked, const SearchReport& report) {
  Problem problem = with_gpus(asked, report.question.gpus);
  const PlanSummary& summary = report.plans.front().plan;
  if (summary.network) problem.network = summary.network;
  if (summary.plan) return {problem, *summary.plan};
  auto plan = expand(summary.degrees, *problem.network, *problem.framework);
  return {problem, std::get<ParallelPlan>(std::move(plan))};
}

void write_page(const std::string& file, const ResolvedQuestion& asked, const SearchReport& report,
                const LadderReport* ladder) {
  if (file.empty()) return;
  page::SearchPage content{&report, ladder};
  std::shared_ptr<const PricedProgram> program;
  std::optional<PricedPlan> first;
  if (!report.plans.empty()) {
    first = priced_plan(asked, report);
    const PlanDegrees& degrees = first->plan.transform_at(0).degrees;
    const int drawn =
        drawn_micro_batches(degrees, *first->problem.framework, *first->problem.network);
    if (!first->plan.order.window) {
      program = PlanEvaluator(first->problem)
                    .program(first->plan, {std::min(drawn, degrees.micro_batches)});
      content.program = program.get();
    }
    content.micro_batches = degrees.micro_batches;
    content.problem = &first->problem;
  }
  io::write_file(file, page::search_page(content));
}

}  // namespace plansearch
