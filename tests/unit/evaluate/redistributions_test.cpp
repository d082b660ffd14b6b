// SPDX-License-Identifier: Apache-2.0
// Redistributions of a plan are the messages of its price, told with their ends and links.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "support/toy_class.hpp"
#include "support/uniform_plan.hpp"

namespace plansearch::redistributions_test {
namespace {

PlanDegrees two_stages() {
  PlanDegrees degrees;
  degrees.tensor_out = 8;
  degrees.sequence_parallel = SequenceParallel::On;
  degrees.pipeline = 2;
  degrees.micro_batches = 32;
  return degrees;
}

TEST_SUITE("unit") {
  TEST_CASE("redistributions take as long as the messages of the price") {
    const Problem problem = test::toy_problem();
    const PlanEvaluator evaluator(problem);
    const ParallelPlan plan = test::uniform_plan(problem, two_stages());
    const auto all = redistributions(evaluator, plan);
    REQUIRE(!all.empty());
    Seconds told;
    Seconds border;
    for (const Redistribution& r : all) {
      REQUIRE(!r.path.empty());
      const bool stages = r.from.starts_with("stage");
      if (r.from == "stage 0" || r.to == "stage 0") border += r.in_step();
      // Embedding and head are on one stage each; layers on both.
      if (!stages && r.from.starts_with("decoder")) told += r.in_step();
    }
    const PlanDetails details = plan_details(evaluator, plan);
    const int layers = static_cast<int>(details.stages[0].layers);
    REQUIRE(details.stages[1].layers == layers);
    Seconds priced;
    Seconds sent;
    for (const PricedCommunication& line : details.communication) {
      const Communication& c = line.communication;
      if (c.axes.contains(Axis::Pipeline) && c.subject == Subject::Activation) {
        sent += line.count * line.time;
        continue;
      }
      const bool moves =
          c.subject == Subject::Activation || c.subject == Subject::ActivationGradient;
      if (moves && line.count >= 32.0 * layers) priced += line.count * line.time;
    }
    CHECK(told.value() == doctest::Approx(priced.value()).epsilon(1e-12));
    // The busiest stage sends one of the two: activations or their gradients.
    CHECK(border.value() == doctest::Approx(2.0 * sent.value()).epsilon(1e-12));
  }

  TEST_CASE("a gather of tokens: where from, where to, its links and bytes") {
    const Problem problem = test::toy_problem();
    const auto all =
        redistributions(PlanEvaluator(problem), test::uniform_plan(problem, two_stages()));
    const auto gather = std::find_if(all.begin(), all.end(), [](const Redistribution& r) {
      return r.from.starts_with("decoder") && r.pass == "forward" &&
             r.path.front().kind == CommunicationKind::AllGather;
    });
    REQUIRE(gather != all.end());
    CHECK(gather->path.front().ranks == 8);
    CHECK(gather->path.front().links == problem.cluster->tiers.front().name);
    CHECK(gather->path.front().axes == "out");
    const double tokens = static_cast<double>(problem.seq_len);
    double hidden = 0.0;
    for (const Dimension& dimension : problem.network->dimensions) {
      if (dimension.role == DimRole::Hidden) hidden = static_cast<double>(dimension.extent);
    }
    CHECK(gather->path.front().bytes.value() == tokens * hidden * 2.0);
    const auto crossing = std::find_if(all.begin(), all.end(), [](const Redistribution& r) {
      return r.from == "stage 0" && r.to == "stage 1";
    });
    REQUIRE(crossing != all.end());
    CHECK(crossing->pass == "forward");
    CHECK(crossing->path.front().bytes.value() == tokens * hidden * 2.0 / 8.0);
  }
}

}  // namespace
}  // namespace plansearch::redistributions_test
