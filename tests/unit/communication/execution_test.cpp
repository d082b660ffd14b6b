// SPDX-License-Identifier: Apache-2.0
// Placements and their derived messages, executed on simulated devices with integer matrices:
// forward, both gradients, and the start of the next step.
#include <doctest/doctest.h>

#include <array>

#include "communication/redistribution/redistribution.hpp"
#include "execution.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plansearch/placements.hpp"
#include "support/moves.hpp"
#include "support/placed_sequence.hpp"
#include "support/rounds.hpp"

namespace plansearch::execution_test {
namespace {

using test::execute;
using test::PlacedBlockCase;
using Kind = SequencePart::Kind;

/// A tensor group of these factors, innermost first.
DeviceMesh group_of(const std::vector<int>& factors) {
  PlanDegrees plan;
  for (const int size : factors) plan.tensor_out *= size;
  return with_factors(make_device_mesh(plan, test::plain_framework().rank_order), factors);
}

DeviceMesh bits(int count) {
  return group_of(std::vector<int>(static_cast<std::size_t>(count), 2));
}

/// One linear operator O[b, m, k] = I[b, m, n] W[n, k] with every dimension `grain` elements per
/// slice; its neighbours hold I where it starts and O where it ends.
PlacedBlockCase linear(const test::PlacedSequence& placed, const DeviceMesh& mesh, int grain = 2) {
  const auto extent = [&](const SliceMap& map) { return std::int64_t{grain} * map.slices(); };
  const test::LinearSlices& forward = placed.phases[0];
  test::BlockBuilder b;
  const DimId db = b.dim("b", DimRole::Batch, extent(forward.batch));
  const DimId dm = b.dim("m", DimRole::Sequence, extent(forward.m));
  const DimId dn = b.dim("n", DimRole::Hidden, extent(forward.n));
  const DimId dk = b.dim("k", DimRole::Ffn, extent(forward.k));
  const TensorId i = b.tensor("I", {db, dm, dn});
  const TensorId o = b.tensor("O", {db, dm, dk});
  const ParameterId w = b.parameter("W", {dn, dk});
  b.op("linear", OperatorKind::Matmul, {db, dm, dn, dk}, {i}, {w}, {o});
  b.block.inputs = {i};
  b.block.outputs = {o};
  PlacedBlockCase made;
  made.network = b.finish();
  const Framework framework = test::plain_framework();
  made.rules = placement_rules(made.network, {}, mesh, framework);
  made.placement = place_block(made.network, made.network.blocks[0], made.rules);
  OperatorPlacement& op = made.placement.operators[0];
  const auto loop = [](const test::LinearSlices& s) { return std::vector{s.batch, s.m, s.n, s.k}; };
  op.steps = placed.steps;
  op.loop = loop(forward);
  op.overrides[1] = loop(placed.phases[1]);
  op.overrides[2] = loop(placed.phases[2]);
  auto& edge = made.rules.slices[static_cast<std::size_t>(PlacementVariant::Plain)];
  edge = {forward.batch, forward.m.at(0, placed.steps), forward.n.at(0, placed.steps), forward.k};
  made.policies = tensor_policies({}, mesh, framework, DataType::Bf16);
  made.derive();
  return made;
}

PartitionSequence square(int log_side) {
  return {{Kind::Square, log_side}};
}

/// A whole block under degrees.
PlacedBlockCase block_case(Network network, const PlanDegrees& plan) {
  PlacedBlockCase made;
  made.network = std::move(network);
  const Framework framework = test::plain_framework();
  const DeviceMesh mesh = make_device_mesh(plan, framework.rank_order);
  made.rules = placement_rules(made.network, plan, mesh, framework);
  made.placement = place_block(made.network, made.network.blocks[0], made.rules);
  made.policies = tensor_policies(plan, mesh, framework, DataType::Bf16);
  made.sharding = framework.sharding;
  made.derive();
  return made;
}

/// Megatron's pair with its gathers and scatters as rings under the products, as plans place it.
PlacedBlockCase ring_pair(int ranks) {
  PlanDegrees plan;
  plan.tensor_out = ranks;
  plan.sequence_parallel = SequenceParallel::On;
  const Framework framework = test::plain_framework();
  PlacedBlockCase made;
  made.network = test::linear_pair(2 * ranks, 6, 2 * ranks);
  made.placements = ring_placements(made.network, ranks);
  const DeviceMesh mesh =
      with_factors(make_device_mesh(plan, framework.rank_order), made.placements->factors);
  made.rules = placement_rules(made.network, plan, mesh, framework, made.placements.get());
  made.placement = place_block(made.network, made.network.blocks[0], made.rules);
  made.policies = tensor_policies(plan, mesh, framework, DataType::Bf16);
  made.sharding = framework.sharding;
  made.derive();
  return made;
}

/// Every message and every move left out once: each must be missed.
void check_that_all_matter(PlacedBlockCase placed) {
  REQUIRE(execute(placed, 1).empty());
  for (std::size_t i = 0; i < placed.messages.size(); ++i) {
    if (placed.messages[i].kind == CommunicationKind::SendReceive) continue;
    PlacedBlockCase without = placed;
    without.messages.erase(without.messages.begin() + static_cast<std::ptrdiff_t>(i));
    CAPTURE(to_text(placed.messages[i]));
    CHECK_FALSE(execute(without, 1).empty());
  }
  for (std::size_t op = 0; op < placed.moves.size(); ++op) {
    for (std::size_t i = 0; i < placed.moves[op].moves.size(); ++i) {
      PlacedBlockCase without = placed;
      auto& moves = without.moves[op].moves;
      const auto left_out = moves.begin() + static_cast<std::ptrdiff_t>(i);
      CAPTURE(static_cast<int>(left_out->subject));
      CAPTURE(left_out->step);
      moves.erase(left_out);
      CHECK_FALSE(execute(without, 1).empty());
    }
  }
}

/// Messages are the moves of tiles, counted.
void check_counts(const PlacedBlockCase& placed) {
  for (std::size_t op = 0; op < placed.moves.size(); ++op) {
    int sent = 0;
    int moved = 0;
    for (const Communication& message : placed.messages) {
      const bool ring = message.kind == CommunicationKind::SendReceive;
      if (ring && message.operator_index == op) sent += message.count;
    }
    for (const auto& move : placed.moves[op].moves) moved += move.count;
    CHECK(sent == moved);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("executed: P(2^k x 2^k) over device bits, and its transfers per device") {
    // PrimePar (ASPLOS'24), Table 1: 2(s-1), 2(s-1)+1, 2(s-1)+1 blocks; |W| twice over s, I and dO
    // 2(s-1) blocks of 1/s^2 each.
    const std::array<std::array<int, 3>, 4> published{
        {{2, 3, 3}, {6, 7, 7}, {14, 15, 15}, {30, 31, 31}}};
    for (int k = 1; k <= 4; ++k) {
      CAPTURE(k);
      const int s = 1 << k;
      const DeviceMesh mesh = bits(2 * k);
      const PlacedBlockCase placed = linear(test::place_sequence(square(k), mesh), mesh, 1);
      CHECK(execute(placed, 3) == "");
      check_counts(placed);
      std::array<int, 3> sent{};
      double elements = 0.0;
      for (const Communication& message : placed.messages) {
        // dI is (r, r+c-1), the neighbour wants (r, r+c): not the operator's.
        if (message.kind == CommunicationKind::Permute) continue;
        REQUIRE(message.kind == CommunicationKind::SendReceive);
        sent[static_cast<std::size_t>(message.phase)] += message.count;
        elements += message.count * message.elements;
      }
      CHECK(sent == published[static_cast<std::size_t>(k - 1)]);
      const double whole = s * s;  // of I, dO and W: one element per tile here
      // (I and dO carry the batch, of one element.)
      CHECK(elements == 2.0 * whole / s + 2.0 * (s - 1) * (whole + whole) / (s * s));
    }
  }

  TEST_CASE("executed: every sequence over up to four bits") {
    // a(n) = 4 a(n-1) + a(n-2) + a(n-4) + ...
    const std::array<std::size_t, 5> counts{4, 17, 72, 306, 1300};
    for (int n = 1; n <= 5; ++n) {
      const auto sequences = all_sequences(n);
      CHECK(sequences.size() == counts[static_cast<std::size_t>(n - 1)]);
      if (n == 5) break;
      const DeviceMesh mesh = bits(n);
      for (const PartitionSequence& sequence : sequences) {
        CAPTURE(to_text(sequence));
        const PlacedBlockCase placed = linear(test::place_sequence(sequence, mesh), mesh, 1);
        CHECK(execute(placed, 5) == "");
        check_counts(placed);
      }
    }
  }

  TEST_CASE("sequences sorted inside every tier are those of all sequences that are") {
    // One tier of n bits: multisets of B, M, N, K (one bit), squares of 2k bits: the coefficients
    // of 1/((1-x)^4 (1-x^2) (1-x^4) ...): 4, 11, 24, 47, 84. Eight bits, three of them inside a
    // node: 84 x 24 with a border between them; squares across it: 47 x 11 of 2x2, 47 + 24 x 4 +
    // 11 x 11 of 4x4, 11 + 4 x 4 + 11 of 8x8, one of 16x16.
    const std::array<std::size_t, 5> counts{4, 11, 24, 47, 84};
    for (std::size_t n = 1; n <= 5; ++n) {
      CHECK(sorted_sequences(std::vector<int>(n, 0)).size() == counts[n - 1]);
      std::vector<int> tiers(n, 1);
      tiers[0] = 0;
      const auto sorted = sorted_sequences(tiers);
      std::vector<PartitionSequence> expected = all_sequences(static_cast<int>(n));
      std::erase_if(expected,
                    [&](const PartitionSequence& sequence) { return !is_sorted(sequence, tiers); });
      CHECK(sorted == expected);
    }
    const std::vector<int> tiers{0, 0, 0, 1, 1, 1, 1, 1};
    CHECK(sorted_sequences(tiers).size() == 84 * 24 + 47 * 11 + 47 + 24 * 4 + 11 * 11 + 38 + 1);
    using Kind = SequencePart::Kind;
    const PartitionSequence replicas{{Kind::Batch}, {Kind::Replicas}, {Kind::Columns}};
    CHECK(is_sorted(replicas, std::vector<int>{0, 1, 1}));
    CHECK_FALSE(is_sorted(replicas, std::vector<int>{0, 0, 1}));
  }

  TEST_CASE("executed: 1,000 random placements over up to five bits") {
    std::mt19937 random(11);
    for (int i = 0; i < test::rounds(1000); ++i) {
      const int n = 1 + static_cast<int>(random() % 5);
      const auto sequences = all_sequences(n);
      const PartitionSequence& sequence = sequences[random() % sequences.size()];
      CAPTURE(to_text(sequence));
      const DeviceMesh mesh = bits(n);
      REQUIRE(execute(linear(test::place_sequence(sequence, mesh), mesh, 1),
                      static_cast<unsigned>(i)) == "");
    }
  }

  TEST_CASE("executed: collectives of sequences on 8 devices, as published") {
    // PrimePar, Figure 9, two nodes of four: O/2 inside, W/4 across; I/2 inside, W/4 across; O/4
    // and I/4 across. Bit d1 is factor 2, the node.
    const DeviceMesh mesh = bits(3);
    const auto collectives = [&](const PartitionSequence& sequence) {
      const PlacedBlockCase placed = linear(test::place_sequence(sequence, mesh), mesh, 8);
      CHECK(execute(placed, 7) == "");
      const test::LinearSlices f = test::place_sequence(sequence, mesh).phases[0];
      const double rows = 64.0 * f.batch.slices() * f.m.slices();
      const double o = rows * 8.0 * f.k.slices();
      const double i = rows * 8.0 * f.n.slices();
      const double w = 64.0 * f.n.slices() * f.k.slices();
      std::string lines;
      for (const Communication& c : placed.messages) {
        if (c.kind == CommunicationKind::SendReceive || c.kind == CommunicationKind::Permute)
          continue;
        CHECK(c.kind == CommunicationKind::AllReduce);
        const double whole = c.subject == Subject::Activation ? o
                             : c.subject == Subject::Gradient ? w
                                                              : i;
        lines += subject_name(placed.network.blocks[0], c) + "/" +
                 std::to_string(static_cast<int>(whole / c.elements)) + " " + to_text(c.axes) +
                 "; ";
      }
      return lines;
    };
    const SequencePart b{Kind::Batch}, n{Kind::Contraction}, k{Kind::Columns}, p{Kind::Square, 1};
    CHECK(collectives({b, k, k}) == "gradient of I/2 t0,t1; gradient of W/4 t2; ");
    CHECK(collectives({b, n, n}) == "O/2 t0,t1; gradient of W/4 t2; ");
    CHECK(collectives({k, p}) == "gradient of I/4 t2; ");
    CHECK(collectives({n, p}) == "O/4 t2; ");
  }

  TEST_CASE("executed: Megatron's pair, AxoNN's grids, ring attention") {
    std::mt19937 random(17);
    for (const SequenceParallel sp : {SequenceParallel::Off, SequenceParallel::On}) {
      for (const int tp : {2, 4}) {
        PlanDegrees plan;
        plan.tensor_out = tp;
        plan.sequence_parallel = sp;
        check_that_all_matter(block_case(test::linear_pair(8, 4, 8), plan));
      }
    }
    for (const int x : {1, 2, 4}) {
      for (const int y : {1, 2, 4}) {
        for (const int z : {1, 2}) {
          PlanDegrees plan;
          plan.tensor_in = x;
          plan.tensor_out = y;
          plan.tensor_depth = z;
          plan.data = 2;
          CAPTURE(x);
          CAPTURE(y);
          CAPTURE(z);
          check_that_all_matter(block_case(test::linear_pair(3, 8, 16), plan));
        }
      }
    }
    for (const int cp : {2, 4}) {
      for (const int tp : {1, 2}) {
        PlanDegrees plan;
        plan.context = cp;
        plan.tensor_out = tp;
        CAPTURE(cp);
        CAPTURE(tp);
        const PlacedBlockCase placed = block_case(test::attention_block(8, 4, 2, 3), plan);
        CHECK(placed.moves[3].kept.size() ==
              2);  // the tiles of keys and values a device starts with
        check_counts(placed);
        check_that_all_matter(placed);
      }
    }
  }

  TEST_CASE("executed: gathers and scatters as rings under the products") {
    // Forward: tokens of x travel, parts of y collect their sum on the way. No collective is left.
    for (const int ranks : {2, 3, 4}) {
      CAPTURE(ranks);
      const PlacedBlockCase placed = ring_pair(ranks);
      for (const Communication& message : placed.messages) {
        CHECK(message.kind == CommunicationKind::SendReceive);
        CHECK(message.count == ranks - 1);
      }
      check_counts(placed);
      check_that_all_matter(placed);
    }
  }

  TEST_CASE("executed: a move of a square that is left out is missed") {
    const DeviceMesh four = bits(2);
    check_that_all_matter(linear(test::place_sequence(square(1), four), four));
    const DeviceMesh sixteen = bits(4);
    check_that_all_matter(linear(test::place_sequence(square(2), sixteen), sixteen, 1));
    check_that_all_matter(
        linear(test::place_sequence({{Kind::Contraction}, {Kind::Square, 1}}, bits(3)), bits(3)));
  }

  TEST_CASE("slices: what a device receives between two sequences is what it lacks") {
    // PrimePar, equation 9: tile less intersection, element by element, over all devices. Layouts
    // of I[b, m, n] under n bits of one dimension each; K leaves I whole.
    const std::array kinds{Kind::Batch, Kind::Rows, Kind::Contraction, Kind::Columns};
    for (const int n : {1, 2, 3}) {
      const DeviceMesh mesh = bits(n);
      const int extent = 1 << n;
      const std::array<double, 3> extents{1.0 * extent, 1.0 * extent, 1.0 * extent};
      const auto layout = [&](Kind kind) {
        const PartitionSequence sequence(static_cast<std::size_t>(n), SequencePart{kind});
        const test::LinearSlices slices = test::place_sequence(sequence, mesh).phases[0];
        Layout result;
        result.dims = {slices.batch, slices.m, slices.n};
        return result;
      };
      const auto holds = [&](const Layout& at, const Coordinates& device, std::array<int, 3> e) {
        for (std::size_t i = 0; i < 3; ++i) {
          const int length = extent / at.dims[i].slices();
          if (e[i] / length != at.dims[i].evaluate(device)) return false;
        }
        return true;
      };
      for (const Kind from : kinds) {
        for (const Kind to : kinds) {
          double lacking = 0.0;
          for (int d = 0; d < extent; ++d) {
            Coordinates device{};
            for (int bit = 0; bit < n; ++bit) {
              device[static_cast<std::size_t>(factor_axis(static_cast<std::size_t>(bit)))] =
                  d >> bit & 1;
            }
            for (int e = 0; e < extent * extent * extent; ++e) {
              const std::array<int, 3> at{e / extent / extent, e / extent % extent, e % extent};
              const bool wanted = holds(layout(to), device, at);
              lacking += wanted && !holds(layout(from), device, at) ? 1.0 : 0.0;
            }
          }
          double received = 0.0;
          for (const RedistributionStep& step :
               test::redistribute({mesh, extents, layout(from), layout(to)})) {
            received += elements_moved(step.kind, step.group_size, step.elements);
          }
          CAPTURE(n);
          CAPTURE(static_cast<int>(from));
          CAPTURE(static_cast<int>(to));
          CHECK(received * extent == lacking);
          if (from == to) CHECK(received == 0.0);
        }
      }
    }
  }

  TEST_CASE("executed: a digit with fewer steps than slices leaves a part to be summed") {
    // N in four slices, 2a + (b + t mod 2): two steps come by the inner digit, not by the outer
    // one.
    const DeviceMesh mesh = bits(3);
    const test::PlacedSequence placed =
        test::place_sequence({{Kind::Contraction}, {Kind::Square, 1}}, mesh);
    CHECK(placed.steps == 2);
    CHECK(placed.phases[0].n.slices() == 4);
    CHECK(placed.phases[0].n.spatial_axes(2) == AxisSet{factor_axis(2)});
    // One digit of four slices needs four steps.
    SliceDigit quarters = placed.phases[0].n.digits().back();
    quarters.modulus = 4;
    CHECK_FALSE(quarters.complete(2));
    CHECK(quarters.complete(4));
    quarters.time = 2;  // 0, 2, 0, 2
    CHECK_FALSE(quarters.complete(4));
  }
}

}  // namespace
}  // namespace plansearch::execution_test
