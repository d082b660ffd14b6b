// SPDX-License-Identifier: Apache-2.0
// What must not jump where a run grows: from one node to two, over context ranks, over thousands of
// data ranks. Each holds for every machine of a kind, not for one row.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "plansearch/evaluator.hpp"
#include "plansearch/load_problem.hpp"

namespace plansearch {
namespace {

struct Size {
  const char* hardware;
  const char* model;
  const char* framework;
  int gpus;
  std::int64_t seq_len;
};

Problem problem_of(const Size& size, std::int64_t batch) {
  ProblemRequest request;
  request.hardware = size.hardware;
  request.model = size.model;
  request.framework = size.framework;
  request.gpus = size.gpus;
  request.batch = batch;
  request.seq_len = size.seq_len;
  return load_problem(request).problem;
}

StepTimeBreakdown step_of(const Problem& problem, const PlanDegrees& plan) {
  const PlanEvaluator evaluator(problem);
  const auto workspace = PlanEvaluator::make_workspace();
  return evaluator.simulate(*evaluator.profile(plan), plan, *workspace).step;
}

/// All weights sharded, one sequence a rank.
PlanDegrees sharded(int ranks) {
  PlanDegrees plan;
  plan.data = ranks;
  plan.zero = ZeroStage::Parameters;
  plan.recompute = Recompute::Full;
  return plan;
}

Seconds sharded_step(const char* hardware, const char* model, int ranks) {
  const Problem problem = problem_of({hardware, model, "fsdp", ranks, 4096}, ranks);
  return step_of(problem, sharded(ranks)).total();
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("the same work on two nodes is no faster than on one") {
    for (const char* hardware : {"l40s", "dgx-h100", "dgx-a100", "aws-p4d", "h100-pcie-8"}) {
      CAPTURE(hardware);
      const Seconds one = sharded_step(hardware, "llama2-13b", 8);
      const Seconds two = sharded_step(hardware, "llama2-13b", 16);
      CHECK(two.value() >= one.value() * 0.98);  // states are cut over more ranks
    }
  }

  TEST_CASE("a device does not wait for its host because a sequence has more ranks") {
    for (const char* hardware : {"dgx-b200", "dgx-h100"}) {
      for (int ranks = 1; ranks <= 8; ranks *= 2) {
        CAPTURE(hardware);
        CAPTURE(ranks);
        PlanDegrees plan;
        plan.context = ranks;
        plan.data = 8 / ranks;
        plan.micro_batches = ranks;
        const StepTimeBreakdown step =
            step_of(problem_of({hardware, "llama3-8b", "megatron", 8, 32768}, 8), plan);
        CHECK(step.host / step.total() < 0.05);
      }
    }
  }

  TEST_CASE("sharding over twice the ranks takes at most twice as long") {
    for (const char* hardware : {"dgx-b300", "dgx-h100", "aws-p5"}) {
      CAPTURE(hardware);
      Seconds last = sharded_step(hardware, "llama3-8b", 128);
      for (int ranks = 256; ranks <= 2048; ranks *= 2) {
        CAPTURE(ranks);
        const Seconds step = sharded_step(hardware, "llama3-8b", ranks);
        CHECK(step >= last * 0.98);
        CHECK(step <= last * 2.0);
        last = step;
      }
    }
  }
}

}  // namespace plansearch
