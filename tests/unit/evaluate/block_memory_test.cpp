// SPDX-License-Identifier: Apache-2.0
// What one block keeps of one micro-batch, per tensor; the sums of a layer stand in
// memory_model_test.cpp. Micro-batch 2 of s = 512 tokens, h = 1024, a = 16 heads.
#include <doctest/doctest.h>

#include "plansearch/transformer_builder.hpp"
#include "support/toy_class.hpp"

namespace plansearch::block_memory_test {
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

Problem with_rule(const SelectiveRecompute& rule) {
  Problem problem = test::toy_problem();
  auto framework = std::make_shared<Framework>(*problem.framework);
  framework->selective = rule;
  problem.framework = framework;
  return problem;
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

  TEST_CASE("a loss in pieces has fp32 tensors, or all its logits, for one piece at a time") {
    const auto with_chunks = [](double chunks, bool multiplies) {
      return test::with_framework(test::toy_problem(), [&](Framework& framework) {
        constexpr auto kLoss = static_cast<std::size_t>(MemoryBound::Loss);
        OperatorPasses& passes = framework.operators.known[kLoss]["pieces"];
        passes.chunks = chunks;
        passes.multiplies = multiplies;
        framework.operators.chosen[kLoss] = "pieces";
      });
    };
    constexpr double kLogits = kTokens * 51200;
    const PlanDegrees plan = plan_of(1, SequenceParallel::Off);
    const test::ToyClass eight(with_chunks(8, false), plan);
    CHECK(eight.profile("head").memory.logits == kLogits / 8);
    CHECK(eight.profile("head").memory.loss == Bytes(2 * kLogits + 4 * kLogits / 8));
    // As many pieces as keep logits as large as the stream: 51200 / 1024 = 50.
    const test::ToyClass whole(with_chunks(0, true), plan);
    CHECK(whole.profile("head").memory.logits == doctest::Approx(kTokens * kHidden));
    CHECK(whole.profile("head").memory.loss.value() == doctest::Approx(6 * kTokens * kHidden));
  }

  TEST_CASE(
      "an fp32 copy of the logits stays beside one kernel's loss, and its gradient takes its "
      "place") {
    const auto of = [](LossInput input) {
      const Problem problem = test::with_framework(test::toy_problem(), [&](Framework& framework) {
        constexpr auto kLoss = static_cast<std::size_t>(MemoryBound::Loss);
        framework.operators.known[kLoss]["kernel"] = OperatorPasses{};
        framework.operators.chosen[kLoss] = "kernel";
        framework.implementation.loss = input;
      });
      return test::ToyClass(problem, plan_of(1, SequenceParallel::Off)).profile("head").memory;
    };
    constexpr double kLogits = kTokens * 51200;
    CHECK(of(LossInput::AsProduced).loss == Bytes(2 * kLogits));
    CHECK(of(LossInput::AsProduced).logits == 0.0);
    // Beside the copy, whose place gradients in fp32 take: those of the logits themselves.
    CHECK(of(LossInput::Single).loss == Bytes((2 + 4 + 2) * kLogits));
    CHECK(of(LossInput::Single).logits == 0.0);
  }

  TEST_CASE("products keep a narrow input of their own, beside what others keep of the tensor") {
    // Per token and feature of the stream: results of both norms and the 4 behind the activation
    // become fp8; the result of attention stays, and its product has a copy of it.
    const auto saved = [](std::optional<DataType> type, Trainable trainable = Trainable::Yes) {
      const auto freeze = [&](Network& network) {
        for (Block& block : network.blocks) {
          for (Parameter& parameter : block.parameters) parameter.trainable = trainable;
        }
      };
      const Problem problem = test::with_framework(
          test::with_network(test::toy_problem(), freeze),
          [&](Framework& framework) { framework.precision.at(DataType::Bf16).kept_inputs = type; });
      const test::ToyClass toy(problem, plan_of(1, SequenceParallel::Off));
      return toy.profile("decoder").memory.saved.value();
    };
    constexpr double kNarrow = 1.0 + 4.0 / 128.0;
    CHECK(saved(std::nullopt) - saved(DataType::Fp8) ==
          doctest::Approx(kTokens * kHidden * (6.0 * (2.0 - kNarrow) - kNarrow)));
    CHECK(saved(std::nullopt, Trainable::No) == saved(DataType::Fp8, Trainable::No));
  }

  TEST_CASE("gradients of a wide activation come beside what its layer keeps") {
    // At the activation of the MLP: gradients of its result and of its input, 4 each per token and
    // feature, and of the stream; the input of the second product is free by then.
    const test::ToyClass toy(test::toy_problem(), plan_of(1, SequenceParallel::Off));
    CHECK(toy.profile("decoder").memory.working_set ==
          Bytes(2 * kTokens * kHidden * (4.0 + 4.0 + 1.0 - 4.0)));
    // Ranks that share the features share them too, but for the stream.
    const test::ToyClass shared(test::toy_problem(), plan_of(4, SequenceParallel::Off));
    CHECK(shared.profile("decoder").memory.working_set ==
          Bytes(2 * kTokens * kHidden * (4.0 / 4 + 1.0 + 0.0)));
  }

  TEST_CASE("what products and activation functions alone read again is kept in fewer bytes") {
    // Per token and feature of the stream: results of both norms, the MLP's 4 before its activation
    // and 4 after; queries, keys, values, the result of attention and the stream stay. fp8 with an
    // fp32 scale per 128 elements in place of 2 bytes.
    const auto saved = [](std::optional<DataType> type) {
      const Problem problem = test::with_framework(test::toy_problem(), [&](Framework& framework) {
        framework.precision.at(DataType::Bf16).saved = type;
      });
      const test::ToyClass toy(problem, plan_of(1, SequenceParallel::Off));
      return toy.profile("decoder").memory.saved.value();
    };
    CHECK(saved(std::nullopt) == saved(DataType::Bf16));
    CHECK(saved(std::nullopt) - saved(DataType::Fp8) ==
          doctest::Approx(10.0 * kTokens * kHidden * (2.0 - 1.0 - 4.0 / 128.0)));
  }

  TEST_CASE("quantised weights are there in the format of their products while these run") {
    // Products of a layer: 12 h^2 elements, the largest 4 h^2; 2 bytes of bf16, 4 + 1 of the shift
    // and its cast.
    const auto of = [](std::optional<DataType> kept, Recompute level) {
      const auto freeze = [](Network& network) {
        for (Block& block : network.blocks) {
          for (Parameter& parameter : block.parameters) parameter.trainable = Trainable::No;
        }
      };
      const Problem problem = test::with_framework(
          test::with_network(test::toy_problem(), freeze),
          [&](Framework& framework) { framework.precision.at(DataType::Bf16).quantised = kept; });
      return test::ToyClass(problem, plan_of(1, SequenceParallel::Off, level))
          .profile("decoder")
          .memory;
    };
    const double weight = kHidden * kHidden;
    for (const Recompute level : {Recompute::None, Recompute::Full}) {
      const BlockMemory plain = of(std::nullopt, level);
      const BlockMemory nf4 = of(DataType::Nf4, level);
      const BlockMemory int4 = of(DataType::Int4, level);
      CHECK(nf4.saved == plain.saved);
      CHECK(nf4.working_set - plain.working_set == Bytes(2 * 4 * weight));
      const bool again = level == Recompute::Full;
      CHECK(int4.saved - plain.saved == Bytes(again ? 0.0 : 2 * 12 * weight));
      CHECK(int4.working_set - plain.working_set ==
            Bytes(5 * 4 * weight + (again ? 2 * 12 * weight : 0.0)));
    }
  }

  TEST_CASE("full recompute keeps the input; the rest is the working set of its own backward") {
    const test::ToyClass none(test::toy_problem(), plan_of(1, SequenceParallel::Off));
    const test::ToyClass full(test::toy_problem(),
                              plan_of(1, SequenceParallel::Off, Recompute::Full));
    const BlockMemory kept = none.profile("decoder").memory;
    const BlockMemory dropped = full.profile("decoder").memory;
    CHECK(dropped.saved == Bytes(2 * kTokens * kHidden));
    CHECK(dropped.saved + dropped.working_set == kept.saved + kept.working_set);
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

  TEST_CASE("a fused kernel that runs again gives up its statistic; its result is the next input") {
    const auto saved = [](SelectiveRule rule, Recompute level) {
      const test::ToyClass toy(with_rule(rule), plan_of(1, SequenceParallel::Off, level));
      return toy.profile("decoder").memory.saved;
    };
    const Bytes none = saved(SelectiveRule::AttentionCore, Recompute::None);
    // 4 bytes per head and token.
    CHECK(none - saved(SelectiveRule::AttentionCore, Recompute::Selective) ==
          Bytes(4 * kTokens * 16));
    CHECK(saved(SelectiveRule::UnfusedAttention, Recompute::Selective) == none);
  }

  TEST_CASE("a fused kernel that runs again costs its forward time, and nothing else is sent") {
    const auto again = [](SelectiveRule rule) {
      const test::ToyClass toy(with_rule(rule),
                               plan_of(4, SequenceParallel::Off, Recompute::Selective));
      const PassProfile pass = toy.profile("decoder").recompute;
      CHECK(pass.exposed_total() == Seconds(0));
      return pass.compute / toy.time("decoder", "attention").forward;
    };
    CHECK(again(SelectiveRule::AttentionCore) == doctest::Approx(1.0));
    CHECK(again(SelectiveRule::UnfusedAttention) == 0.0);
  }

  // One rank: U = 2 bytes x tokens x hidden. Queries, keys and values are read by the kernel, the
  // results of both norms by the products after them; MLP: input norm stays, inner 4 U twice go.
  TEST_CASE("modules that run again give back what is made inside them") {
    const auto memory = [](LayerModules modules) {
      const test::ToyClass toy(with_rule({SelectiveRule::Modules, modules}),
                               plan_of(1, SequenceParallel::Off, Recompute::Selective));
      return toy.profile("decoder").memory;
    };
    const double unit = 2 * kTokens * kHidden;
    const Bytes none = memory({}).saved;
    const LayerModules norm = bit_of(LayerModule::LayerNorm), mlp = bit_of(LayerModule::Mlp);
    // Each norm keeps mean and deviation, 4 bytes each.
    const double statistics = 2 * kTokens * 2 * 4;
    CHECK(none - memory(norm).saved == Bytes(2 * unit + statistics));
    CHECK(none - memory(mlp).saved == Bytes(8 * unit));
    CHECK(none - memory(norm | mlp).saved == Bytes(10 * unit + statistics));
    CHECK(none - memory(bit_of(LayerModule::CoreAttention)).saved == Bytes(4 * kTokens * 16));
    // One module is made again after the other.
    CHECK(memory(norm | mlp).working_set - memory({}).working_set == Bytes(8 * unit));
  }

  TEST_CASE("of a micro-batch in pieces two are alive: one computes, one is on its way") {
    const auto stream = [](int pieces) {
      PlanDegrees plan = plan_of(4, SequenceParallel::Off);
      plan.micro_batch = 4;
      plan.micro_batches = 2;
      plan.pieces = pieces;
      return test::ToyClass(test::toy_problem(), plan).profile("decoder").memory.stream;
    };
    CHECK(stream(4) == stream(1) / 2);
    CHECK(stream(2) == stream(1));
  }

  TEST_CASE("modules that run again cost the forward time of their kernels") {
    const test::ToyClass toy(with_rule({SelectiveRule::Modules, bit_of(LayerModule::LayerNorm)}),
                             plan_of(1, SequenceParallel::Off, Recompute::Selective));
    const Seconds norms =
        toy.time("decoder", "norm1").forward + toy.time("decoder", "norm2").forward;
    CHECK(toy.profile("decoder").recompute.compute / norms == doctest::Approx(1.0));
  }

  // Four tensor ranks, the stream spread over them; U: one rank's share of the stream, 2 bytes
  // each. Kept: input U, query U, value U, up 4 U, context U, both scattered sums U each; the
  // statistic, 4 bytes of 4 heads per token. Key, projection and down run again.
  TEST_CASE("a policy by operator keeps every other product and scattered sums") {
    const test::ToyClass toy(with_rule(SelectiveRule::AlternateMatmuls),
                             plan_of(4, SequenceParallel::On, Recompute::Selective));
    const double unit = 2 * kTokens * kHidden / 4;
    CHECK(toy.profile("decoder").memory.saved == Bytes(10 * unit + 4 * kTokens * 4));
    CHECK(toy.profile("decoder").recompute.exposed_total() == Seconds(0));
  }

  // Full recomputation but for the kernel: input 2 bytes, context 2 bytes, statistic 4 per head.
  TEST_CASE("all but attention: messages as in full recomputation, one kernel less") {
    const auto toy = [](Recompute level) {
      return std::make_unique<test::ToyClass>(with_rule(SelectiveRule::AllButAttention),
                                              plan_of(4, SequenceParallel::Off, level));
    };
    const auto full = toy(Recompute::Full);
    const auto part = toy(Recompute::Selective);
    const PassProfile all = full->profile("decoder").recompute;
    const PassProfile some = part->profile("decoder").recompute;
    CHECK(some.exposed_total() == all.exposed_total());
    CHECK(some.exposed_total() > Seconds(0));
    CHECK((all.compute - some.compute).value() ==
          doctest::Approx(full->time("decoder", "attention").forward.value()));
    CHECK(part->profile("decoder").memory.saved ==
          Bytes(2 * kTokens * kHidden + 2 * kTokens * kHidden / 4 + 4 * kTokens * 4));
  }
}

}  // namespace
}  // namespace plansearch::block_memory_test
