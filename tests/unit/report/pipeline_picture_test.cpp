// SPDX-License-Identifier: Apache-2.0
#include "report/pipeline_picture.hpp"

#include <doctest/doctest.h>

namespace plansearch {
namespace {

PlanReport two_stages(double forward, double backward, int micro_batches) {
  PlanReport plan;
  plan.plan.degrees.pipeline = 2;
  plan.plan.degrees.micro_batches = micro_batches;
  for (int i = 0; i < 2; ++i) {
    StageReport stage;
    stage.stage = i;
    stage.forward = Seconds(forward);
    stage.backward = Seconds(backward);
    plan.stages.push_back(stage);
  }
  return plan;
}

std::string times(char c, int count) {
  return std::string(static_cast<std::size_t>(count), c);
}

TEST_SUITE("unit") {
  TEST_CASE("a pipeline is drawn in its own times") {
    // 1F1B of three micro-batches, F = 8 s, B = 14 s: (3 + 1) x 22 s, a column each.
    Framework framework;
    const std::string text = pipeline_picture(two_stages(8, 14, 3), framework);
    CHECK(text ==
          "1f1b pipeline, the plan's own times, 3 of 3 micro-batches, 2 of 2 stages, a column is "
          "1.00 s\n"
          "stage 0  | " +
              times('0', 8) + times('1', 8) + times('.', 14) + times('a', 14) + times('2', 8) +
              times('b', 14) + times('.', 8) + times('c', 14) + "\nstage 1  | " + times('.', 8) +
              times('0', 8) + times('a', 14) + times('1', 8) + times('b', 14) + times('2', 8) +
              times('c', 14) + times('.', 14) +
              "\n0-9: forward of a micro-batch; a-j: backward; .: waiting\n");
  }

  TEST_CASE("a longer second stage and a message show as waiting of the first") {
    // One micro-batch: F0 8 | 6 message, 8 F1, 52 B1, 6 back | B0 8.
    PlanReport plan = two_stages(8, 8, 1);
    plan.stages[0].edge_time = Seconds(6);
    plan.stages[1].backward = Seconds(52);
    const std::string text = pipeline_picture(plan, Framework{});
    CHECK(text.find("stage 0  | " + times('0', 8) + times('.', 72) + times('a', 8) + "\n") !=
          std::string::npos);
    CHECK(text.find("stage 1  | " + times('.', 14) + times('0', 8) + times('a', 52) +
                    times('.', 14) + "\n") != std::string::npos);
  }

  TEST_CASE("without a pipeline there is no picture") {
    PlanReport plan = two_stages(1, 2, 4);
    plan.plan.degrees.pipeline = 1;
    CHECK(pipeline_picture(plan, Framework{}).empty());
  }
}

}  // namespace
}  // namespace plansearch
