// SPDX-License-Identifier: Apache-2.0
#include "evidence/reproduce/alpa/alpa_planner.hpp"
#include "plansearch/plan_report.hpp"

#include <doctest/doctest.h>

#include "plansearch/plan_stages.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::alpa_planner_test {

namespace {

SearchRequest plain() {
  SearchRequest request;
  request.pinned.pin(Degree::Recompute, 0);
  request.pinned.pin(Degree::Schedule, static_cast<int>(kDefaultSchedule));
  return request;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("layers are joined to groups of equal work, in order") {
    test::ToyOptions options;
    options.layers = 12;
    const Problem problem = test::toy_problem(options);
    const auto pieces = clustered_pieces(*problem.network, 4);
    REQUIRE(pieces.size() == 4);
    std::vector<BlockRun> all;
    for (const auto& piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
    std::int64_t copies = 0;
    for (const BlockRun& run : all) copies += run.count;
    CHECK(copies == 12 + 2);  // embedding and head
    CHECK(clustered_pieces(*problem.network, 99).size() == 12);
  }

  TEST_CASE("the objective is the sum of the stages and the longest, again for every micro-batch") {
    test::ToyOptions options;
    options.layers = 12;
    options.memory_gib = 2.5;  // one stage does not fit
    const Problem problem = test::toy_problem(options);
    const PlanEvaluator evaluator(problem);
    const auto found = alpa_plan(evaluator, plain(), 6);
    REQUIRE(found);
    const auto reports = plan_details(evaluator, found->plan).stages;
    CHECK(reports.size() > 1);
    Seconds sum;
    Seconds longest;
    for (const StageReport& stage : reports) {
      sum += stage.forward + stage.backward;
      longest = std::max(longest, stage.forward + stage.backward);
    }
    const double others = found->plan.order.micro_batches - 1;
    CHECK(found->estimate.value() ==
          doctest::Approx((sum + longest * others).value()).epsilon(1e-9));
  }
}

}  // namespace plansearch::alpa_planner_test
