// SPDX-License-Identifier: Apache-2.0
// Overlap as a rule of when to post and when to wait. One sequence of 512 tokens, h = 1024.
#include "evaluate/block/block_program.hpp"

#include <doctest/doctest.h>

#include "support/toy_class.hpp"

namespace plansearch::block_program_test {
namespace {

constexpr std::size_t kTensor = static_cast<std::size_t>(Purpose::Tensor);
constexpr std::size_t kData = static_cast<std::size_t>(Purpose::Data);

/// The toy machine with a framework whose messages of these kinds run ahead.
Problem ahead(std::vector<Overlap> kinds) {
  return test::with_framework(test::toy_problem(), [&](Framework& framework) {
    framework.overlap.fill({});
    for (const Overlap kind : kinds) {
      framework.overlap[static_cast<std::size_t>(kind)] = {0.0, MessageWait::Use, {}, 1};
    }
    framework.constants.host_launch = Seconds(0);
    framework.sharding.unit = ParameterUnit::Parameter;
  });
}

/// AxoNN's axes: weights over out and depth.
PlanDegrees grid(int out, int depth, Recompute recompute = Recompute::None) {
  PlanDegrees plan;
  plan.tensor_out = out;
  plan.tensor_depth = depth;
  plan.data = 16 / (out * depth);
  plan.micro_batches = 2;
  plan.recompute = recompute;
  return plan;
}

/// Megatron's split over `out` ranks of micro-batches of several sequences.
PlanDegrees pieces_of(int micro_batch, int pieces, int out = 4) {
  PlanDegrees plan = grid(out, 1);
  plan.micro_batch = micro_batch;
  plan.pieces = pieces;
  return plan;
}

Problem slower_links(Problem problem, double speed) {
  Cluster cluster = *problem.cluster;
  for (LinkTier& tier : cluster.tiers) {
    tier.bandwidth *= speed;
    if (auto* link = std::get_if<LocalLinkCurve>(&tier.curve)) {
      link->low_latency *= speed;
      link->low_latency_128 *= speed;
      link->simple *= speed;
      if (link->switch_reduction) *link->switch_reduction *= speed;
    }
  }
  problem.cluster = std::make_shared<const Cluster>(cluster);
  return problem;
}

/// Kernels of a forward pass between the all-reduces of a layer, and one of these.
struct Turns {
  Seconds attention;  ///< from the second all-reduce to the first of the next layer
  Seconds mlp;
  Seconds message;
};

Turns turns_of(const test::ToyClass& toy) {
  Turns turns;
  const auto times = toy.times(toy.block("decoder"));
  std::vector<std::size_t> after;
  for (const auto& line : toy.profile("decoder").passes) {
    const Communication& c = line.communication;
    if (c.phase != DemandPhase::Forward) continue;
    REQUIRE(c.side == Side::After);
    after.push_back(c.operator_index);
    turns.message = line.time;
  }
  REQUIRE(after.size() == 2);
  for (std::size_t op = 0; op < times.size(); ++op) {
    (op > after[0] && op <= after[1] ? turns.mlp : turns.attention) += times[op].forward;
  }
  return turns;
}

Seconds pass_of(const BlockProfile& block) {
  return block.forward_length + block.backward_length;
}

TEST_SUITE("unit") {
  TEST_CASE("nothing ahead and nothing hidden: every program is as long as its sum") {
    for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
      for (const auto& [out, depth] : {std::pair{1, 1}, {4, 1}, {1, 4}, {2, 2}, {4, 4}}) {
        const test::ToyClass toy(ahead({}), grid(out, depth, recompute));
        const auto block = toy.profile("decoder");
        const auto length = [&](BlockPass pass) {
          return toy.steady("decoder", pass).steady.length;
        };
        const auto inputs = block.input_gradient.device() + block.recompute.device();
        CHECK(length(BlockPass::Forward) == doctest::Approx(block.forward.device().value()));
        CHECK(length(BlockPass::Backward) ==
              doctest::Approx((block.backward.device() + block.recompute.device()).value()));
        CHECK(length(BlockPass::InputGradient) == doctest::Approx(inputs.value()));
        CHECK(length(BlockPass::WeightGradient) ==
              doctest::Approx(block.weight_gradient.device().value()));
        CHECK(toy.steady("decoder", BlockPass::Backward).edges.length == doctest::Approx(0));
      }
    }
  }

  TEST_CASE("the reduction of an input gradient hides under the same operator's weight gradient") {
    // Two all-reduces of a block's backward: after the MLP's first product and after query, key and
    // value. Each shows what its weight gradient is too short for.
    const test::ToyClass blocking(ahead({}), grid(4, 1));
    const test::ToyClass hiding(ahead({Overlap::TensorParallel}), grid(4, 1));
    Seconds expected;
    for (const auto& line : blocking.profile("decoder").passes) {
      const Communication& c = line.communication;
      if (c.phase != DemandPhase::InputGradient || c.subject != Subject::ActivationGradient)
        continue;
      const auto op = hiding.times(hiding.block("decoder"))[c.operator_index];
      expected += std::max(line.time - op.weight_gradient, Seconds(0));
    }
    CHECK(hiding.profile("decoder").backward.exposed[kTensor].value() ==
          doctest::Approx(expected.value()));
    CHECK(hiding.profile("decoder").forward.exposed[kTensor].value() ==
          doctest::Approx(blocking.profile("decoder").forward.exposed[kTensor].value()));
  }

  TEST_CASE("user buffers hide a share of messages that nothing else runs beside, and no others") {
    // Forward: both all-reduces are read by the next kernel and half hidden. Backward: the
    // reductions of input gradients run under weight gradients as they do without user buffers.
    const auto with_share = [](bool user_buffers, int tensor = 4) {
      Problem problem = test::with_framework(ahead({Overlap::TensorParallel}), [](Framework& f) {
        f.overlap[static_cast<std::size_t>(Overlap::TensorParallel)].share = 0.5;
        f.constants.contention[static_cast<std::size_t>(Overlap::TensorParallel)] = 0.0;
      });
      Cluster cluster = *problem.cluster;
      cluster.accelerator.user_buffers = user_buffers;
      problem.cluster = std::make_shared<const Cluster>(cluster);
      return test::ToyClass(problem, grid(tensor, 1)).profile("decoder");
    };
    const auto without = with_share(false);
    const auto with = with_share(true);
    const Seconds messages = without.forward.exposed[kTensor];
    const Seconds hidden = std::min(messages * 0.5, with.forward.compute);  // at most its kernels
    CHECK(with.forward.exposed[kTensor].value() == doctest::Approx((messages - hidden).value()));
    CHECK(hidden > Seconds(0));
    CHECK(with.backward.exposed[kTensor].value() ==
          doctest::Approx(without.backward.exposed[kTensor].value()));
    // Sixteen ranks lie on two nodes, which have no buffers in common.
    CHECK(with_share(true, 16).forward.exposed == with_share(false, 16).forward.exposed);
  }

  TEST_CASE("each switch alone and all together are never slower, and faster where bytes move") {
    const std::vector<std::vector<Overlap>> sets{
        {Overlap::TensorParallel},
        {Overlap::GradientReduction},
        {Overlap::ParameterGather},
        {Overlap::TensorParallel, Overlap::GradientReduction, Overlap::ParameterGather}};
    for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
      for (const auto& [out, depth] : {std::pair{4, 1}, {1, 4}, {2, 4}, {4, 4}}) {
        const PlanDegrees plan = grid(out, depth, recompute);
        const auto blocking = test::ToyClass(ahead({}), plan).profile("decoder");
        for (std::size_t i = 0; i < sets.size(); ++i) {
          const auto hiding = test::ToyClass(ahead(sets[i]), plan).profile("decoder");
          CAPTURE(i);
          CAPTURE(out);
          CAPTURE(depth);
          CAPTURE(static_cast<int>(recompute));
          CHECK(pass_of(hiding) <= pass_of(blocking) + Seconds(1e-15));
          const bool works = i == 3 || (i == 0 ? out > 1 : depth > 1);
          CHECK((pass_of(hiding) < pass_of(blocking) - Seconds(1e-9)) == works);
        }
      }
    }
  }

  TEST_CASE("reductions of weights are waited for when backward is over") {
    // Alone in the pass and shorter than what follows: only the last operator's own is seen, at
    // the end of a run of copies.
    const test::ToyClass toy(ahead({Overlap::GradientReduction}), grid(1, 4));
    const auto blocking = test::ToyClass(ahead({}), grid(1, 4)).profile("decoder");
    const auto block = toy.profile("decoder");
    CHECK(block.backward.exposed[kData] < blocking.backward.exposed[kData]);
    CHECK(block.backward_edges.exposed[kData] > Seconds(0));
  }

  TEST_CASE("two pieces take turns: a forward pass drawn by hand") {
    // One piece of a layer runs R A (what follows the second all-reduce of the layer before, then
    // up to the first of its own), waits c, runs M up to the second, waits c. Two pieces in turns,
    // the messages on one queue:
    //   kernels   RA0 RA1 M0 M1 RA0 ...
    //   messages      c0  c1 c0  c1
    // A message is waited for where it is longer than the turn that runs beside it, and the next
    // one starts that much later: a layer takes 2 max(RA, c) + 2 max(M, c).
    for (const double speed : {1.0, 0.05, 0.01}) {
      const Problem problem = slower_links(ahead({Overlap::TensorParallel}), speed);
      const test::ToyClass piece(problem, pieces_of(1, 1));
      const test::ToyClass two(problem, pieces_of(2, 2));
      const Turns turns = turns_of(piece);
      const double c = turns.message.value();
      const double expected =
          2.0 * std::max(turns.attention.value(), c) + 2.0 * std::max(turns.mlp.value(), c);
      CAPTURE(speed);
      CHECK(two.profile("decoder").forward_length.value() == doctest::Approx(expected));
      CHECK(two.profile("decoder").forward.compute.value() ==
            doctest::Approx(2.0 * (turns.attention + turns.mlp).value()));
    }
  }

  TEST_CASE("pieces are never longer than their kernels and messages one after the other") {
    // The same kernels and messages, none of which runs beside another, are twice those of one
    // piece.
    for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
      for (const int out : {2, 4}) {
        for (const double speed : {1.0, 0.05, 0.01}) {
          PlanDegrees plan = pieces_of(2, 2, out);
          plan.recompute = recompute;
          const auto two =
              test::ToyClass(slower_links(ahead({Overlap::TensorParallel}), speed), plan)
                  .profile("decoder");
          plan.micro_batch = plan.pieces = 1;
          const auto one = test::ToyClass(slower_links(ahead({}), speed), plan).profile("decoder");
          CHECK(pass_of(two) < 2.0 * pass_of(one));
          CHECK(two.forward.compute.value() == doctest::Approx(2.0 * one.forward.compute.value()));
          CHECK(two.backward.exposed[kTensor] < 2.0 * one.backward.exposed[kTensor]);
        }
      }
    }
  }

  TEST_CASE("without messages pieces only make kernels smaller") {
    for (const int pieces : {2, 4}) {
      const Problem problem = ahead({Overlap::TensorParallel});
      const auto whole = test::ToyClass(problem, pieces_of(4, 1, 1)).profile("decoder");
      const auto cut = test::ToyClass(problem, pieces_of(4, pieces, 1)).profile("decoder");
      CHECK(pass_of(cut) > pass_of(whole));
      CHECK(cut.memory.saved == whole.memory.saved);
    }
  }

  TEST_CASE("weights are gathered and their gradients reduced once for all pieces") {
    const auto lines = [](int pieces) {
      PlanDegrees plan = pieces_of(2, pieces, 2);
      plan.tensor_depth = 2;
      plan.data = 4;
      return test::ToyClass(ahead({Overlap::TensorParallel}), plan).profile("decoder").passes;
    };
    const auto whole = lines(1);
    const auto cut = lines(2);
    REQUIRE(whole.size() == cut.size());
    int kept = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const Subject subject = whole[i].communication.subject;
      const bool once = subject == Subject::Parameter || subject == Subject::Gradient;
      kept += once ? 1 : 0;
      CHECK(cut[i].count == doctest::Approx(whole[i].count * (once ? 1.0 : 2.0)));
      CHECK(cut[i].bytes.value() == doctest::Approx(whole[i].bytes.value() * (once ? 1.0 : 0.5)));
    }
    CHECK(kept > 0);
  }

  TEST_CASE("pieces wait where the framework waits at once") {
    const Problem problem = ahead({});
    const auto two = test::ToyClass(problem, pieces_of(2, 2)).profile("decoder");
    const auto one = test::ToyClass(problem, pieces_of(1, 1)).profile("decoder");
    CHECK(pass_of(two).value() == doctest::Approx(2.0 * pass_of(one).value()));
  }
}

}  // namespace
}  // namespace plansearch::block_program_test
