// SPDX-License-Identifier: Apache-2.0
// PrimePar's primitive and ring attention from slice maps alone.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "small_networks.hpp"

namespace plansearch::temporal_test {
namespace {

SliceMap affine(int modulus, SliceTerms terms, int time, int last, int offset) {
  SliceMap map;
  SliceDigit digit;
  digit.modulus = modulus;
  digit.terms = terms;
  digit.time = static_cast<std::int8_t>(time);
  digit.last = static_cast<std::int8_t>(last);
  digit.offset = static_cast<std::int16_t>(offset);
  map.push_back(digit);
  return map;
}

/// The slices of P(s x s) by phase: M, N, K. r lies on In, c on Out.
struct Primitive {
  SliceMap m, n, k;
};

std::array<Primitive, 3> primitive(int s) {
  const SliceTerm r{Axis::In, 1};
  const SliceTerm c{Axis::Out, 1};
  return {
      Primitive{affine(s, {r}, 0, 0, 0), affine(s, {r, c}, 1, 0, 0), affine(s, {c}, 0, 0, 0)},
      Primitive{affine(s, {r}, 0, 0, 0), affine(s, {r, c}, 0, 0, -1), affine(s, {c}, 1, 0, 0)},
      Primitive{affine(s, {r}, 1, 0, 0), affine(s, {r, c}, 0, 1, -1), affine(s, {c}, 0, 1, -1)}};
}

DeviceMesh square(int s) {
  PlanDegrees plan;
  plan.tensor_in = s;
  plan.tensor_out = s;
  return make_device_mesh(plan, test::plain_framework().rank_order);
}

Coordinates at(int r, int c) {
  Coordinates device{};
  device[static_cast<std::size_t>(Axis::In)] = r;
  device[static_cast<std::size_t>(Axis::Out)] = c;
  return device;
}

/// One linear operator O[M, K] = I[M, N] W[N, K] with the primitive as its placement.
struct Linear {
  Network network;
  PlacementRules rules;
  BlockPlacement placement;
  TensorPolicies policies;
  ShardingRules sharding;
};

Linear cannon(int s, std::int64_t m, std::int64_t n, std::int64_t k) {
  test::BlockBuilder b;
  const DimId dm = b.dim("m", DimRole::Sequence, m);
  const DimId dn = b.dim("n", DimRole::Hidden, n);
  const DimId dk = b.dim("k", DimRole::Ffn, k);
  const TensorId i = b.tensor("I", {dm, dn});
  const TensorId o = b.tensor("O", {dm, dk});
  const ParameterId w = b.parameter("W", {dn, dk});
  b.op("linear", OperatorKind::Matmul, {dm, dn, dk}, {i}, {w}, {o});
  const auto slices = primitive(s);
  Linear linear;
  linear.network = b.finish();
  Framework framework = test::plain_framework();
  PlanDegrees plan;
  linear.rules = placement_rules(linear.network, plan, square(s), framework);
  linear.placement = place_block(linear.network, linear.network.blocks[0], linear.rules);
  OperatorPlacement& placed = linear.placement.operators[0];
  placed.steps = s;
  placed.loop = {slices[0].m, slices[0].n, slices[0].k};
  placed.overrides[1] = {slices[1].m, slices[1].n, slices[1].k};
  placed.overrides[2] = {slices[2].m, slices[2].n, slices[2].k};
  // The neighbours hold I and O where the primitive starts and ends: I (r, r+c), O (r, c).
  auto& edge = linear.rules.slices[static_cast<std::size_t>(PlacementVariant::Plain)];
  edge = {slices[0].m, slices[0].n.at(0, s), slices[0].k};
  linear.policies = tensor_policies(plan, linear.rules.mesh, framework, DataType::Bf16);
  return linear;
}

TEST_SUITE("unit") {
  TEST_CASE("slice maps evaluate mixed radix with time and the last step") {
    const DeviceMesh mesh = square(4);
    const SliceMap sharded = SliceMap::shard(mesh, {Axis::In, Axis::Out});
    CHECK(sharded.slices() == 16);
    CHECK(sharded.evaluate(at(2, 3)) == 11);
    CHECK(sharded.spatial_axes() == AxisSet{Axis::In, Axis::Out});
    const SliceMap g = primitive(4)[2].n;  // r + c - 1 + [t last]
    CHECK(g.evaluate(at(0, 0), 0, 4) == 3);
    CHECK(g.evaluate(at(0, 0), 3, 4) == 0);
    CHECK(g.varies());
    CHECK(g.travelling_axes(4).empty());
    CHECK(g.at(3, 4) == SliceMap(affine(4, {{Axis::In, 1}, {Axis::Out, 1}}, 0, 0, 0)));
    CHECK(SliceMap{}.whole());
  }

  TEST_CASE("P(s x s): the summed dimension is complete, nothing is replicated") {
    for (int k = 1; k <= 3; ++k) {
      const int s = 1 << k;
      CAPTURE(s);
      const auto phases = primitive(s);
      for (int p = 0; p < 3; ++p) {
        const Primitive& maps = phases[static_cast<std::size_t>(p)];
        const SliceMap& summed = p == 0 ? maps.n : p == 1 ? maps.k : maps.m;
        const std::array<std::pair<const SliceMap*, const SliceMap*>, 3> operands{
            {{&maps.m, &maps.n}, {&maps.n, &maps.k}, {&maps.m, &maps.k}}};
        for (int t = 0; t < s; ++t) {
          for (const auto& [row, column] : operands) {
            std::set<std::pair<int, int>> blocks;
            for (int r = 0; r < s; ++r) {
              for (int c = 0; c < s; ++c) {
                blocks.insert({row->evaluate(at(r, c), t, s), column->evaluate(at(r, c), t, s)});
              }
            }
            CHECK(static_cast<int>(blocks.size()) == s * s);
          }
        }
        for (int r = 0; r < s; ++r) {
          for (int c = 0; c < s; ++c) {
            std::set<int> seen;
            for (int t = 0; t < s; ++t) seen.insert(summed.evaluate(at(r, c), t, s));
            CHECK(static_cast<int>(seen.size()) == s);
          }
        }
      }
    }
  }

  TEST_CASE("P(s x s): every transfer comes from the sender of the published ring table") {
    // Receiver (r, c) gets the block from (r + dr, c + dc); PrimePar (ASPLOS'24), Table 1.
    const auto shift = [](const SliceMap& a, const SliceMap& b, int t, int s) {
      const std::array<SliceMap, 2> now{a.at(t, s), b.at(t, s)};
      const std::array<SliceMap, 2> next{a.at(t + 1, s), b.at(t + 1, s)};
      const Shift moved = alignment_shift(now, next, square(s)).value();
      return std::pair{moved[static_cast<std::size_t>(Axis::In)],
                       moved[static_cast<std::size_t>(Axis::Out)]};
    };
    for (int k = 1; k <= 3; ++k) {
      const int s = 1 << k;
      CAPTURE(s);
      const auto [f, b, g] = primitive(s);
      for (int t = 0; t + 1 < s; ++t) {
        CAPTURE(t);
        CHECK(shift(f.m, f.n, t, s) == std::pair{0, 1});      // I from (r, c+1)
        CHECK(shift(f.n, f.k, t, s) == std::pair{1, 0});      // W from (r+1, c)
        CHECK(shift(b.m, b.k, t, s) == std::pair{0, 1});      // dO from (r, c+1)
        CHECK(shift(b.n, b.k, t, s) == std::pair{s - 1, 1});  // W from (r-1, c+1)
        const bool last = t == s - 2;
        CHECK(shift(g.m, g.n, t, s) == std::pair{1, last ? 0 : s - 1});  // I
        CHECK(shift(g.m, g.k, t, s) == std::pair{1, last ? 1 : 0});      // dO
        CHECK(shift(g.n, g.k, t, s) == std::pair{0, last ? 1 : 0});      // dW, only at the end
      }
    }
  }

  TEST_CASE("derivation 4: Cannon: two ring moves forward, three in each backward phase") {
    // Blocks per device and phase: 2(s-1), 2(s-1)+1, 2(s-1)+1; no collective, no replica.
    for (int k = 1; k <= 3; ++k) {
      const int s = 1 << k;
      CAPTURE(s);
      const Linear linear = cannon(s, 64, 32, 128);
      const auto demands =
          test::derive_communication(linear.network, linear.network.blocks[0], linear.rules,
                                     linear.placement, linear.policies, linear.sharding);
      std::map<DemandPhase, int> moves;
      std::map<std::string, double> elements;
      for (const Communication& demand : demands) {
        if (demand.subject == Subject::ActivationGradient &&
            demand.kind == CommunicationKind::Permute) {
          continue;  // dI is (r, r+c-1), the neighbour wants (r, r+c): redistribution, not the
                     // operator
        }
        CHECK(demand.kind == CommunicationKind::SendReceive);
        moves[demand.phase] += demand.count;
        elements[subject_name(linear.network.blocks[0], demand)] += demand.count * demand.elements;
      }
      CHECK(moves[DemandPhase::Forward] == 2 * (s - 1));
      CHECK(moves[DemandPhase::InputGradient] == 2 * (s - 1) + 1);
      CHECK(moves[DemandPhase::WeightGradient] == 2 * (s - 1) + 1);
      // Volumes: I and dO move 2(s-1) blocks, W 2(s-1)+1 and dW one: 2|W|/s together.
      CHECK(elements["I"] == 2.0 * (s - 1) * 64 * 32 / (s * s));
      CHECK(elements["gradient of O"] == 2.0 * (s - 1) * 64 * 128 / (s * s));
      CHECK(elements["W"] + elements["gradient of W"] == 2.0 * 32 * 128 / s);
    }
  }

  TEST_CASE("ring attention: keys and values travel, their gradients travel home as well") {
    // cp = 4, tokens 1024, 4 key heads of 8 features: 1024/4 x 4 x 8 = 8192 elements per tile.
    // Forward 3 moves each; backward 3 again, and 4 for the gradients (the last one brings them
    // home). Weight gradients are partial over context: 128 x 128 (wq, wo), 128 x 32 (wk, wv).
    const Network network = test::attention_block(1024, 16, 4, 8);
    PlanDegrees plan;
    plan.context = 4;
    using Lines = std::vector<std::string>;
    CHECK(test::lines(network, test::derive(network, plan)) ==
          Lines{"forward: 3 send-receive context x4 of k, 8192 per use",
                "forward: 3 send-receive context x4 of v, 8192 per use",
                "input-gradient: 3 send-receive context x4 of k, 8192 per use",
                "input-gradient: 4 send-receive context x4 of gradient of k, 8192 per use",
                "input-gradient: 3 send-receive context x4 of v, 8192 per use",
                "input-gradient: 4 send-receive context x4 of gradient of v, 8192 per use",
                "step: all-reduce context x4 of gradient of wq, 16384 per step",
                "step: all-reduce context x4 of gradient of wk, 4096 per step",
                "step: all-reduce context x4 of gradient of wv, 4096 per step",
                "step: all-reduce context x4 of gradient of wo, 16384 per step"});
  }
}

}  // namespace
}  // namespace plansearch::temporal_test
