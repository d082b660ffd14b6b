// SPDX-License-Identifier: Apache-2.0
// What one block keeps of one micro-batch, per tensor; the sums of a layer stand in
// memory_model_test.cpp. Micro-batch 2 of s = 512 tokens, h = 1024, a = 16 heads.
#include <doctest/doctest.h>

#include "plansearch/transformer_builder.hpp"
#include "support/toy_class.hpp"

namespace plansearch {
namespace {

constexpr double kTokens = 2 * 512;
constexpr double kHidden = 1024;

PlanDegrees plan_of(int tensor, SequenceParallel spread, Recompute recompute = Recompute::None) {
  PlanDegrees plan;
  plan.tensor_out = tensor;
  plan.data = 16 / tensor;
  plan.micro_batch = 2;
  plan.micro_batches = 16 / plan.data;
  plan.sequence_parallel = spread;
  plan.recompute = recompute;
  return plan;
}

TEST_SUITE("unit") {
  TEST_CASE("the message to the next stage is the residual stream as neighbours hold it") {
    for (const int tensor : {1, 4}) {
      const test::ToyClass whole(test::toy_problem(), plan_of(tensor, SequenceParallel::Off));
      CHECK(whole.profile("decoder").memory.boundary == Bytes(2 * kTokens * kHidden));
    }
    const test::ToyClass spread(test::toy_problem(), plan_of(4, SequenceParallel::On));
    CHECK(spread.profile("decoder").memory.boundary == Bytes(2 * kTokens * kHidden / 4));
  }

  TEST_CASE("matmuls read the whole stream, spread over tensor ranks or not") {
    for (const SequenceParallel spread : {SequenceParallel::Off, SequenceParallel::On}) {
      const test::ToyClass toy(test::toy_problem(), plan_of(4, spread));
      CHECK(toy.profile("decoder").memory.stream == kTokens * kHidden);
    }
  }

  TEST_CASE("the head has its share of the logits and keeps 6 bytes of each") {
    const test::ToyClass toy(test::toy_problem(), plan_of(4, SequenceParallel::Off));
    const BlockMemory memory = toy.profile("head").memory;
    CHECK(memory.logits == kTokens * 51200 / 4);
    CHECK(memory.loss == Bytes(6 * kTokens * 51200 / 4));
    CHECK(toy.profile("decoder").memory.loss == Bytes(0));
    CHECK(toy.profile("decoder").memory.logits == 0);
  }

  TEST_CASE("full recompute keeps the input; the rest is the working set of its own backward") {
    const test::ToyClass none(test::toy_problem(), plan_of(1, SequenceParallel::Off));
    const test::ToyClass full(test::toy_problem(),
                              plan_of(1, SequenceParallel::Off, Recompute::Full));
    const BlockMemory kept = none.profile("decoder").memory;
    const BlockMemory dropped = full.profile("decoder").memory;
    CHECK(kept.working_set == Bytes(0));
    CHECK(dropped.saved == Bytes(2 * kTokens * kHidden));
    CHECK(dropped.saved + dropped.working_set == kept.saved);
    // The head is not recomputed.
    CHECK(full.profile("head").memory.saved == none.profile("head").memory.saved);
  }

  TEST_CASE("selective recompute drops the scores of unfused attention") {
    // Softmax in bf16, kept once: 2 a s^2 b; the toy has no dropout.
    Problem problem = test::toy_problem();
    problem.network = std::make_shared<const Network>(
        build_network(*problem.model, {.attention = AttentionKind::Unfused}));
    const test::ToyClass none(problem, plan_of(1, SequenceParallel::Off));
    const test::ToyClass selective(problem,
                                   plan_of(1, SequenceParallel::Off, Recompute::Selective));
    CHECK(none.profile("decoder").memory.saved - selective.profile("decoder").memory.saved ==
          Bytes(2.0 * 16 * 512 * 512 * 2));
  }
}

}  // namespace
}  // namespace plansearch
