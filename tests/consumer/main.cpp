// SPDX-License-Identifier: Apache-2.0
// The program of docs/library.md: a machine and a model by name, one plan, then the best.
#include <iostream>
#include <plansearch/plansearch.hpp>

int main(int count, char** words) {
  using namespace plansearch;
  const ResolvedQuestion asked = load_problem(
      {.hardware = count > 1 ? words[1] : "perlmutter", .model = "gpt2-xl", .gpus = 64});
  const PlanEvaluator evaluator(asked.problem);
  const double site = asked.problem.site.factor;  // of a typical site, or the one asked for
  for (const int sequences : {4, 8, 16}) {        // per GPU: 64 x 8 is the batch of the model
    const Evaluation priced = evaluator.evaluate(
        PlanDegrees{.data = 64, .micro_batch = sequences, .zero = ZeroStage::Optimizer});
    if (const auto* estimate = std::get_if<Estimate>(&priced)) {
      std::cout << "step_time_s " << at_factor(*estimate, site).step.total().value() << '\n';
    } else {
      std::cout << "infeasible: " << std::get<InfeasiblePlan>(priced).reason.detail << '\n';
    }
  }
  const auto plans = make_space("framework", asked.problem, {});
  const SearchResult found = search(evaluator, std::get<SearchSpace>(plans), {});
  const Estimate best = at_factor(found.ranked.front().estimate, site);
  std::cout << "best_s " << best.step.total().value() << '\n';
}
