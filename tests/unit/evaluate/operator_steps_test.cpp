// SPDX-License-Identifier: Apache-2.0
// What operators in steps cost: every step is priced, work is conserved, tiles that travel hide
// under the products as far as those last, second buffers need room.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>

#include "cost/kernels/compute_cost.hpp"
#include "evaluate/block/operator_time.hpp"
#include "evaluate/block/profile_maker.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "plansearch/plan_stages.hpp"
#include "support/placed_sequence.hpp"
#include "support/rounds.hpp"
#include "support/toy_class.hpp"

namespace plansearch::operator_steps_test {
namespace {

PlanDegrees degrees(int tensor) {
  PlanDegrees plan;
  plan.tensor_out = tensor;
  plan.data = 16 / tensor;
  plan.micro_batch = 2;
  plan.micro_batches = 32 / plan.data / 2;
  return plan;
}

/// A toy GPT whose plan places operators, and what that costs.
struct Priced {
  Problem problem;
  ParallelPlan plan;
  PlacementNames names;

  [[nodiscard]] Estimate estimate() const {
    const Evaluation result = PlanEvaluator(problem).evaluate(plan);
    if (const auto* bad = std::get_if<InfeasiblePlan>(&result)) FAIL(bad->reason.detail);
    return std::get<Estimate>(result);
  }
  [[nodiscard]] PlanDetails details() const { return plan_details(PlanEvaluator(problem), plan); }

  /// Kernels of an operator of a layer.
  [[nodiscard]] OperatorTime time(const std::string& name) const {
    const Transform& transform = plan.transforms.front();
    const Network& network = *problem.network;
    const PricingContext context = pricing_context(problem);
    const PlacementRules rules = placement_rules(network, transform.degrees, transform.mesh,
                                                 *problem.framework, transform.placements.get());
    for (std::size_t b = 0; b < network.blocks.size(); ++b) {
      const Block& block = network.blocks[b];
      const BlockIndex index = index_block(network, block);
      BlockPlacement placement;
      place_block(block, index, rules, placement, b);
      const BlockCuts cuts = cut_block(network, block, index, rules, placement);
      std::vector<OperatorTime> times;
      const LocalSizes sizes(block, index, cuts, rules.extents);
      append_operator_times(context, block, sizes, sizes, times);
      for (std::size_t i = 0; i < times.size(); ++i) {
        if (block.operators[i].name == name) return times[i];
      }
    }
    throw InternalError("no operator " + name);
  }
};

Priced priced(Problem problem, const PlanDegrees& plan, const PlacementNames& names) {
  auto made = resolve_placements(names, *problem.network, plan, *problem.framework);
  if (const auto* fault = std::get_if<PlacementFault>(&made)) FAIL(fault->message);
  auto& distinguished = std::get<DistinguishedNetwork>(made);
  problem.network = distinguished.network;
  std::vector<StageDescription> stages(1);
  stages[0].degrees = plan;
  stages[0].chunks = {problem.network->order};
  auto whole = plan_of_stages(stages, {plan.schedule, plan.micro_batches}, problem.global_batch,
                              *problem.framework, *problem.network);
  REQUIRE(std::holds_alternative<ParallelPlan>(whole));
  auto placed = with_placements(std::get<ParallelPlan>(whole), distinguished.placements,
                                *problem.network, *problem.framework);
  if (const auto* bad = std::get_if<Infeasible>(&placed)) FAIL(bad->detail);
  return {problem, std::get<ParallelPlan>(placed), names};
}

Priced squares(const Problem& problem, const PlanDegrees& plan, int side) {
  auto made = square_placements(*problem.network, plan, side);
  if (const auto* fault = std::get_if<PlacementFault>(&made)) FAIL(fault->message);
  return priced(problem, plan, std::get<PlacementNames>(made));
}

Problem with_wait(MessageWait wait) {
  return test::with_framework(test::toy_problem(), [&](Framework& framework) {
    OverlapRule& rule = framework.overlap[static_cast<std::size_t>(Overlap::TensorParallel)];
    rule = {};
    rule.wait = wait;
  });
}

Seconds travelling(const PlanDetails& details, bool exposed) {
  Seconds sum;
  for (const PricedCommunication& line : details.communication) {
    if (line.communication.steps == 1) continue;
    sum += exposed ? line.exposed : line.time * line.count;
  }
  return sum;
}

/// A chip on which a product takes its FLOPs over the peak, whatever its shape.
Problem on_ideal_chip() {
  Problem problem = test::toy_problem();
  Cluster cluster = *problem.cluster;
  Accelerator& chip = cluster.accelerator;
  chip.multiprocessors = 1;
  chip.memory_bandwidth = Bandwidth(1e30);
  MatmulCurve ideal;
  for (auto& curve : chip.kernels.matmul) {
    if (curve) curve = ideal;
  }
  problem.cluster = std::make_shared<const Cluster>(std::move(cluster));
  return problem;
}

/// A product [batch, m, k] = [batch, m, n] x [n, k] by name.
struct Product {
  const char* name;
  const char* n;
  const char* k;
};

/// The sequence as a plan file says it; bit 0 of it is the outermost factor. Absent where a file
/// cannot: more than five factors of one dimension.
std::optional<PlacementEntry> entry_of(const PartitionSequence& sequence, const Product& product,
                                       int bits) {
  PlacementEntry entry{{product.name}, {}, {}, {}, {}};
  std::array<FactorList, 4> lists;
  int bit = 0;
  const auto next = [&] { return static_cast<std::uint8_t>(bits - 1 - bit++); };
  for (const SequencePart& part : sequence) {
    if (part.kind != SequencePart::Kind::Square) {
      lists.at(static_cast<std::size_t>(part.kind)).push_back(next());
      continue;
    }
    NamedSquare& square =
        entry.squares.emplace_back(NamedSquare{{}, {}, "sequence", product.n, product.k});
    for (int i = 0; i < part.log_side; ++i) {
      square.rows.push_back(next());
      square.columns.push_back(next());
    }
  }
  std::size_t side = 0;
  for (const NamedSquare& square : entry.squares) side += square.rows.size();
  const std::array<const char*, 4> names{"batch", "sequence", product.n, product.k};
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (lists.at(i).size() + (i > 0 ? side : 0) > kMostFactorsOfDimension) return std::nullopt;
    if (!lists.at(i).empty()) entry.cut.push_back({names.at(i), lists.at(i)});
  }
  return entry;
}

TEST_SUITE("unit") {
  TEST_CASE("steps: a product over 2 x 2 devices is two products of half the depth") {
    // Micro-batch 2 of 512 tokens over two rows: 512; 1024 features in two slices; 4096 outputs
    // over two columns. The second step reads the sum of the first: 512 x 2048 of 2 bytes.
    const Problem toy = test::toy_problem();
    const Priced two = squares(toy, degrees(4), 2);
    const Accelerator& chip = toy.cluster->accelerator;
    const auto product = [&](double m, double n, double k) {
      return matmul_time(chip, DataType::Bf16, {1, m, n, k});
    };
    const auto rate = chip.memory_bandwidth * chip.kernels.stream.efficiency;
    const OperatorTime time = two.time("mlp_in");
    CHECK(time.forward.value() ==
          doctest::Approx((2 * product(512, 2048, 512) + Bytes(2.0 * 512 * 2048) / rate).value()));
    // The gradient of the weight is added into its buffer at every step, at 6 bytes an element.
    CHECK(
        time.weight_gradient.value() ==
        doctest::Approx((2 * (product(512, 2048, 512) + Bytes(6.0 * 512 * 2048) / rate)).value()));
    CHECK(time.forward_kernels == 2);
    CHECK(time.backward_kernels == 4);
  }

  TEST_CASE("steps: work is conserved over 1,000 random sequences") {
    // Devices x steps x points of a step is the whole loop nest.
    std::mt19937 random(23);
    PlanDegrees group;
    for (int i = 0; i < test::rounds(1000); ++i) {
      const int bits = 1 + static_cast<int>(random() % 6);
      const auto sequences = all_sequences(bits);
      const PartitionSequence& sequence = sequences[random() % sequences.size()];
      CAPTURE(to_text(sequence));
      group.tensor_out = 1 << bits;
      const DeviceMesh mesh =
          with_factors(make_device_mesh(group, test::toy_framework().rank_order),
                       std::vector<int>(static_cast<std::size_t>(bits), 2));
      const test::PlacedSequence placed = test::place_sequence(sequence, mesh);
      for (const test::LinearSlices& phase : placed.phases) {
        const int slices =
            phase.batch.slices() * phase.m.slices() * phase.n.slices() * phase.k.slices();
        CHECK(slices == group.tensor_out * placed.steps);
      }
    }
  }

  TEST_CASE(
      "steps: priced FLOPs are conserved over 1,000 random placements, forward and backward") {
    // On a chip without overheads time is FLOPs over peak: of all steps of all devices the whole
    // product, 2 x 16 x 512 tokens x 1,024 x 4,096 (projection: x 1,024), twice in backward.
    constexpr int kBits = 4;
    const std::array<Product, 3> products{{{"mlp_in", "hidden", "ffn"},
                                           {"mlp_out", "ffn", "hidden"},
                                           {"projection", "heads", "hidden"}}};
    const Problem ideal = on_ideal_chip();
    const auto peak = *ideal.cluster->accelerator.peak[static_cast<std::size_t>(DataType::Bf16)];
    PlanDegrees plan = degrees(1 << kBits);
    plan.micro_batch = 16;
    plan.micro_batches = 2;
    const auto sequences = all_sequences(kBits);
    std::mt19937 random(29);
    int in_steps = 0;
    for (int placed = 0; placed < 1000;) {
      PlacementNames names;
      names.factors.assign(kBits, 2);
      for (const Product& product : products) {
        const auto entry = entry_of(sequences[random() % sequences.size()], product, kBits);
        if (entry) names.operators.push_back(*entry);
      }
      if (names.operators.empty()) continue;
      const Priced made = priced(ideal, plan, names);
      for (const PlacementEntry& entry : names.operators) {
        const std::string& name = entry.operators.front();
        CAPTURE(name);
        const double width = name == "projection" ? 1024.0 : 4096.0;
        const Flops share(2.0 * 16 * 512 * 1024 * width / (1 << kBits));
        const OperatorTime time = made.time(name);
        CHECK(time.forward.value() == doctest::Approx((share / peak).value()).epsilon(1e-9));
        CHECK(time.backward.value() == doctest::Approx(2 * (share / peak).value()).epsilon(1e-9));
        in_steps += entry.squares.empty() ? 0 : 1;
        ++placed;
      }
    }
    CHECK(in_steps > test::rounds(100));
  }

  TEST_CASE("steps: at equal efficiency a product in steps takes what it takes cut in space") {
    const Problem ideal = on_ideal_chip();
    for (const int tensor : {4, 8, 16}) {
      const Priced temporal = squares(ideal, degrees(tensor), 2);
      const Priced spatial = priced(ideal, degrees(tensor), {});
      for (const char* name : {"query", "projection", "mlp_in", "mlp_out"}) {
        CAPTURE(name);
        CHECK(temporal.time(name).forward.value() ==
              doctest::Approx(spatial.time(name).forward.value()));
        CHECK(temporal.time(name).backward.value() ==
              doctest::Approx(spatial.time(name).backward.value()));
      }
    }
  }

  TEST_CASE("steps: never faster than cut in space alone, and slower where kernels get small") {
    const Problem toy = test::toy_problem();
    for (const auto& [tensor, side] : {std::pair{4, 2}, {8, 2}, {16, 4}}) {
      CAPTURE(tensor);
      PlanDegrees plan = degrees(tensor);
      if (side == 4) {
        plan.micro_batch = 4;
        plan.micro_batches = 8;
      }
      const Priced temporal = squares(toy, plan, side);
      const Priced spatial = priced(toy, plan, {});
      for (const char* name : {"query", "projection", "mlp_in", "mlp_out"}) {
        CAPTURE(name);
        CHECK(temporal.time(name).forward >= spatial.time(name).forward);
        CHECK(temporal.time(name).backward >= spatial.time(name).backward);
      }
    }
  }

  TEST_CASE("steps: compute is what the kernels take, whatever travels and however fast") {
    const auto compute = [](const Problem& problem) {
      return squares(problem, degrees(4), 2).estimate().step.compute;
    };
    const Seconds spatial =
        priced(with_wait(MessageWait::Use), degrees(4), {}).estimate().step.compute;
    const Seconds temporal = compute(with_wait(MessageWait::Use));
    CHECK(temporal == compute(with_wait(MessageWait::AtOnce)));
    // Norms and residuals, which squares cut and space alone does not, are all that it can win.
    CHECK(temporal.value() > 0.8 * spatial.value());
  }

  TEST_CASE("steps: tiles hide under the product of a step where the framework lets them") {
    const Priced under = squares(with_wait(MessageWait::Use), degrees(4), 2);
    const Priced beside = squares(with_wait(MessageWait::AtOnce), degrees(4), 2);
    const Seconds all = travelling(beside.details(), false);
    CHECK(all.value() > 0.0);
    CHECK(travelling(beside.details(), true).value() == doctest::Approx(all.value()));
    CHECK(travelling(under.details(), true) < all * 0.5);
    CHECK(under.estimate().step.total() < beside.estimate().step.total());
    // In words: no all-reduce is left of tp 4, sums over two ranks of eight of tp 8.
    const auto words = [](const Priced& p) {
      const auto why = report_plan(PlanEvaluator(p.problem), p.plan, p.estimate()).why;
      CHECK(why.back().find("x as fast as the same degrees cut in space alone") !=
            std::string::npos);
      return why[why.size() - 2];
    };
    CHECK(words(beside) ==
          "operators in steps: 0 % of what tiles travel is hidden; no all-reduce of activations is "
          "left");
    const Priced eight = squares(with_wait(MessageWait::AtOnce), degrees(8), 2);
    CHECK(words(eight) ==
          "operators in steps: 0 % of what tiles travel is hidden; most all-reduces of activations "
          "are over 2 ranks of 8");
  }

  TEST_CASE("steps: tiles run under products where collectives block, each once") {
    const auto made = [](MessageWait wait, std::optional<MessageWait> steps) {
      const Problem problem = test::with_framework(test::toy_problem(), [&](Framework& framework) {
        OverlapRule& rule = framework.overlap[static_cast<std::size_t>(Overlap::TensorParallel)];
        rule = {};
        rule.wait = wait;
        rule.steps = steps;
      });
      return squares(problem, degrees(8), 2);
    };
    const Priced posted = made(MessageWait::Use, std::nullopt);
    const Priced tiles = made(MessageWait::AtOnce, MessageWait::Use);
    const Priced blocking = made(MessageWait::AtOnce, std::nullopt);
    const auto collectives = [](const Priced& p) {
      Seconds sum;
      for (const PricedCommunication& line : p.details().communication) {
        if (line.communication.steps == 1) sum += line.exposed;
      }
      return sum.value();
    };
    CHECK(travelling(tiles.details(), true).value() <
          1.05 * travelling(posted.details(), true).value());
    CHECK(collectives(tiles) == doctest::Approx(collectives(blocking)));
    CHECK(collectives(posted) < collectives(blocking));
    CHECK(tiles.estimate().step.total() < blocking.estimate().step.total());
    CHECK(made(MessageWait::Use, MessageWait::AtOnce).estimate().step.total() >
          posted.estimate().step.total());
  }

  TEST_CASE("steps: rings take gathers and scatters under products, the work of a step its rows") {
    const auto rings = [](const Problem& problem, PlanDegrees plan) {
      plan.sequence_parallel = SequenceParallel::On;
      return priced(
          problem, plan,
          names_of(*ring_placements(*problem.network, plan.tensor_out), *problem.network));
    };
    const auto spatial = [](const Problem& problem, PlanDegrees plan) {
      plan.sequence_parallel = SequenceParallel::On;
      return priced(problem, plan, {});
    };
    const Problem posted = with_wait(MessageWait::Use);
    const Priced ring = rings(posted, degrees(8));
    const Accelerator& chip = posted.cluster->accelerator;
    // Micro-batch 2 of 512 tokens in 8 steps: 128 rows, 1024 features, 512 outputs. No step adds to
    // another; sums of mlp_out collect on the way: every step but one reads 128 x 1024 of 2 bytes.
    const auto product = [&](double m, double n, double k) {
      return matmul_time(chip, DataType::Bf16, {1, m, n, k});
    };
    const auto rate = chip.memory_bandwidth * chip.kernels.stream.efficiency;
    CHECK(ring.time("mlp_in").forward.value() ==
          doctest::Approx((8 * product(128, 512, 1024)).value()));
    CHECK(ring.time("mlp_out").forward.value() ==
          doctest::Approx(
              (8 * product(128, 1024, 512) + Bytes(7 * 2.0 * 128 * 1024) / rate).value()));
    CHECK(ring.time("mlp_in").forward_kernels == 8);
    // No gather and no scatter of the layers is left; tiles travel 7 times what a device holds.
    for (const PricedCommunication& line : ring.details().communication) {
      const Communication& c = line.communication;
      CAPTURE(line.what);
      if (line.what.find("mlp") == std::string::npos || c.subject == Subject::Gradient) continue;
      CHECK(c.kind == CommunicationKind::SendReceive);
    }
    CHECK(travelling(ring.details(), true) < travelling(ring.details(), false));
    const Problem ideal = on_ideal_chip();
    for (const char* name : {"query", "projection", "mlp_in", "mlp_out"}) {
      CAPTURE(name);
      CHECK(rings(ideal, degrees(8)).time(name).forward.value() ==
            doctest::Approx(spatial(ideal, degrees(8)).time(name).forward.value()));
      CHECK(rings(ideal, degrees(8)).time(name).backward.value() ==
            doctest::Approx(spatial(ideal, degrees(8)).time(name).backward.value()));
    }
  }

  // Projection and mlp_out run again (block_memory_test.cpp); their sums are kept, scattered by a
  // message or on their way under the product.
  TEST_CASE("steps: a policy by operator keeps sums that are scattered in steps") {
    const Problem problem = test::with_framework(test::toy_problem(), [](Framework& framework) {
      framework.selective = SelectiveRule::AlternateMatmuls;
      framework.operator_steps = OperatorSteps::Rings;
    });
    PlanDegrees plan = degrees(4);
    plan.sequence_parallel = SequenceParallel::On;
    plan.recompute = Recompute::Selective;
    const auto names =
        names_of(*ring_placements(*problem.network, plan.tensor_out), *problem.network);
    const Priced ring = priced(problem, plan, names);
    CHECK(ring.estimate().memory.activations ==
          priced(problem, plan, {}).estimate().memory.activations);
  }

  TEST_CASE("steps: weights and activations over the square, second buffers beside them") {
    // One layer's states lie on four devices either way; norms on two of them instead of four.
    const Problem toy = test::toy_problem();
    const Priced temporal = squares(toy, degrees(4), 2);
    const Priced spatial = priced(toy, degrees(4), {});
    const auto memory = [](const Priced& p) { return p.estimate().memory; };
    CHECK(memory(temporal).parameters <= memory(spatial).parameters);
    CHECK(memory(temporal).activations < memory(spatial).activations);
  }
}

}  // namespace
}  // namespace plansearch::operator_steps_test
