// SPDX-License-Identifier: Apache-2.0
// Tensors that are alive at the peak: parts sum to it, whatever the plan; numbers of micro-batches
// are those that the order of the schedule is known to keep.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "plansearch/plan_report.hpp"
#include "support/schedules.hpp"
#include "support/toy_problem.hpp"
#include "unit/evaluate/random_plans.hpp"

namespace plansearch::held_at_peak_test {
namespace {

PeakReport peak_of(const PlanEvaluator& evaluator, const PlanDegrees& degrees) {
  return plan_details(evaluator, std::get<ParallelPlan>(evaluator.expand(degrees))).peak;
}

const HeldPart* part_of(const PeakReport& peak, const std::string& what) {
  const auto found = std::find_if(peak.parts.begin(), peak.parts.end(),
                                  [&](const HeldPart& part) { return part.what == what; });
  return found == peak.parts.end() ? nullptr : &*found;
}

PlanDegrees pipeline_of(int stages, int micro_batches) {
  PlanDegrees degrees;
  degrees.pipeline = stages;
  degrees.data = 16 / stages;
  degrees.micro_batches = micro_batches;
  return degrees;
}

Problem problem_of(const PlanDegrees& degrees) {
  test::ToyOptions options;
  options.global_batch = degrees.global_batch();
  return test::toy_problem(options);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the parts of a peak sum to it, for any plan") {
    const PlanEvaluator evaluator(test::toy_problem());
    std::mt19937 engine(7);
    int seen = 0;
    for (int i = 0; i < 400 && seen < 60; ++i) {
      const auto plan = test::random_plan(engine, evaluator);
      if (!plan) continue;
      ++seen;
      const PeakReport peak = peak_of(evaluator, *plan);
      Bytes sum;
      for (const HeldPart& part : peak.parts) {
        sum += part.bytes;
        CAPTURE(part.what);
        CHECK(part.bytes > Bytes(0));
      }
      CHECK(sum.value() == doctest::Approx(peak.allocated.value()).epsilon(1e-9));
      CHECK(peak.allocated <= peak.reserved);
      CHECK(peak.reserved <= peak.process);
      CHECK(std::is_sorted(peak.parts.begin(), peak.parts.end(),
                           [](const HeldPart& a, const HeldPart& b) { return a.bytes > b.bytes; }));
    }
    CHECK(seen > 30);
  }

  TEST_CASE("micro-batches in flight: one on the last stage of 1F1B, all of them under GPipe") {
    // 8 layers: the last stage of 4 has two of them and the logits, which makes it the fullest.
    for (const auto& [order, in_flight] : {std::pair{"1f1b", 1.0}, std::pair{"gpipe", 16.0}}) {
      CAPTURE(order);
      PlanDegrees degrees = pipeline_of(4, 16);
      degrees.schedule = *find_schedule(order);
      const PeakReport peak = peak_of(PlanEvaluator(problem_of(degrees)), degrees);
      CHECK(peak.device == 3);
      const HeldPart* inner = part_of(peak, "decoder: mlp_in");
      REQUIRE(inner != nullptr);
      CHECK(inner->count == doctest::Approx(2.0 * in_flight).epsilon(1e-6));
      // 512 tokens x 4,096 features in bf16.
      CHECK(inner->bytes.value() ==
            doctest::Approx(2.0 * in_flight * 512 * 4096 * 2).epsilon(1e-6));
    }
  }

  TEST_CASE("full recomputation leaves the inputs of layers") {
    PlanDegrees degrees = pipeline_of(1, 2);
    degrees.recompute = Recompute::Full;
    const PeakReport peak = peak_of(PlanEvaluator(problem_of(degrees)), degrees);
    const HeldPart* stream = part_of(peak, "decoder: stream");
    REQUIRE(stream != nullptr);
    CHECK(stream->count == doctest::Approx(8.0).epsilon(1e-6));
    CHECK(stream->bytes.value() == doctest::Approx(8.0 * 512 * 1024 * 2).epsilon(1e-6));
    CHECK(part_of(peak, "decoder: mlp_in") == nullptr);
  }
}

}  // namespace plansearch::held_at_peak_test
