// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/plan_stages.hpp"
#include "plansearch/space.hpp"
#include "support/search_space.hpp"
#include "support/toy_class.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::staged_spaces_test {
namespace {

Problem problem_of(OperatorSteps steps) {
  test::ToyOptions options;
  options.layers = 4;
  options.gpus = 4;
  options.global_batch = 16;
  return test::with_framework(test::toy_problem(options), [&](Framework& framework) {
    framework.operator_steps = steps;
    framework.own_layers = OwnLayers::Ends;
  });
}

/// The degrees of a plan that are asked for below.
void check_admitted(const SearchRequest& request, const ParallelPlan& plan,
                    const Framework& framework) {
  const std::vector<StageDescription> stages = stages_of(plan, framework);
  const auto holds = [&](Degree degree, int value) {
    INFO(value_text(degree, value));
    CHECK(request.admits(degree, value));
  };
  holds(Degree::Pipeline, static_cast<int>(stages.size()));
  for (const StageDescription& stage : stages) {
    holds(Degree::Chunks, static_cast<int>(stage.chunks.size()));
    for (const Degree degree :
         {Degree::Data, Degree::TensorOut, Degree::Zero, Degree::Recompute, Degree::MicroBatch}) {
      if (degree == Degree::Zero && stage.degrees.data == 1)
        continue;  // one replica shards nothing
      holds(degree, degree_value(stage.degrees, degree));
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("staged spaces: no plan has a degree that nobody asked for") {
    const auto pinned = [](Degree degree, int value) {
      SearchRequest request;
      request.pinned.pin(degree, value);
      return request;
    };
    const auto listed = [](Degree degree, std::vector<int> values) {
      SearchRequest request;
      request.limits.allow(degree, std::move(values));
      return request;
    };
    const std::vector<SearchRequest> requests{
        pinned(Degree::Data, 2),        listed(Degree::Data, {2, 4}),
        pinned(Degree::TensorOut, 2),   listed(Degree::TensorOut, {2, 4}),
        listed(Degree::Pipeline, {1}),  listed(Degree::Pipeline, {2, 3}),
        pinned(Degree::Zero, 1),        listed(Degree::Zero, {1, 2}),
        pinned(Degree::MicroBatch, 2),  listed(Degree::MicroBatch, {1, 4}),
        listed(Degree::Recompute, {2}), pinned(Degree::Chunks, 2),
    };
    int ranked = 0;
    for (const OperatorSteps steps : {OperatorSteps::Squares, OperatorSteps::Rings}) {
      const PlanEvaluator evaluator(problem_of(steps));
      const Framework& framework = *evaluator.problem().framework;
      for (const NamedSpace& space : named_spaces()) {
        if (!is_staged(space.name)) continue;
        if (steps == OperatorSteps::Rings && space.name == "primepar") continue;
        for (const SearchRequest& request : requests) {
          INFO(space.name);
          // A search may refuse as well.
          if (space.name == "operators" && !request.admits(Degree::Pipeline, 1)) {
            CHECK_THROWS_AS((void)search(evaluator, space.name, request, {}), InputError);
            continue;
          }
          const SearchResult found = test::search_space(space.name, evaluator, request);
          ranked += static_cast<int>(found.ranked.size());
          for (const PlanCandidate& candidate : found.ranked) {
            check_admitted(request, whole_plan(evaluator, candidate), framework);
          }
        }
      }
    }
    CHECK(ranked > 200);
  }
}

}  // namespace
}  // namespace plansearch::staged_spaces_test
