// SPDX-License-Identifier: Apache-2.0
// Volumes of degenerate grids and published volume formulas, from the one derivation.
#include <doctest/doctest.h>

#include <cmath>

#include "communication/redistribution/redistribution.hpp"
#include "small_networks.hpp"
#include "unit/communication/reference_sizes.hpp"

namespace plansearch::closed_forms_test {
namespace {

double moved(const std::vector<Communication>& demands) {
  double sum = 0.0;
  for (const Communication& d : demands) {
    sum += d.count * elements_moved(d.kind, d.group_size, d.elements);
  }
  return sum;
}

/// The four linears of a GPT block without norms: H -> 3H, H -> H, H -> 4H, 4H -> H.
Network gpt_linears(std::int64_t tokens, std::int64_t hidden) {
  test::BlockBuilder b;
  const DimId batch = b.dim("batch", DimRole::Batch, 1);
  const DimId seq = b.dim("sequence", DimRole::Sequence, tokens);
  const DimId h = b.dim("hidden", DimRole::Hidden, hidden);
  const DimId head = b.dim("head", DimRole::Head, hidden);
  const DimId three = b.dim("qkv", DimRole::Other, 3);
  const DimId ffn = b.dim("ffn", DimRole::Ffn, 4 * hidden);
  const TensorId x = b.tensor("x", {batch, seq, h});
  const TensorId qkv = b.tensor("qkv", {batch, seq, head, three});
  const TensorId context = b.tensor("context", {batch, seq, head});
  const TensorId out = b.tensor("out", {batch, seq, h});
  const TensorId up = b.tensor("up", {batch, seq, ffn});
  const TensorId y = b.tensor("y", {batch, seq, h});
  b.op("qkv", OperatorKind::Matmul, {batch, seq, h, head, three}, {x},
       {b.parameter("wqkv", {h, head, three})}, {qkv});
  b.op("mix", OperatorKind::Elementwise, {batch, seq, head, three}, {qkv}, {}, {context});
  b.op("out", OperatorKind::Matmul, {batch, seq, head, h}, {context},
       {b.parameter("wo", {head, h})}, {out});
  b.op("up", OperatorKind::Matmul, {batch, seq, h, ffn}, {out}, {b.parameter("w1", {h, ffn})},
       {up});
  b.op("down", OperatorKind::Matmul, {batch, seq, ffn, h}, {up}, {b.parameter("w2", {ffn, h})},
       {y});
  b.block.inputs = {x};
  b.block.outputs = {y};
  return b.finish();
}

constexpr double kTokens = 512;
constexpr double kHidden = 64;

double tensor_volume(int in, int out) {
  PlanDegrees plan;
  plan.tensor_in = in;
  plan.tensor_out = out;
  return moved(test::derive(gpt_linears(512, 64), plan));
}

TEST_SUITE("unit") {
  TEST_CASE("degenerate grid: out only is Megatron-LM, 8 B s H (G - 1) / G elements") {
    for (const int g : {2, 4, 8}) {
      CHECK(tensor_volume(1, g) == doctest::Approx(8 * kTokens * kHidden * (g - 1) / g));
    }
  }

  TEST_CASE("degenerate grid: depth only is ZeRO-3: two gathers and one scatter of every weight") {
    PlanDegrees depth;
    depth.tensor_depth = 8;
    PlanDegrees fsdp;
    fsdp.data = 8;
    fsdp.zero = ZeroStage::Parameters;
    const Network network = gpt_linears(512, 64);
    const double weights = 12 * kHidden * kHidden;
    CHECK(moved(test::derive(network, depth)) == doctest::Approx(3 * weights * 7 / 8));
    CHECK(moved(test::derive(network, fsdp)) == doctest::Approx(3 * weights * 7 / 8));
  }

  TEST_CASE("degenerate grid: data only is DDP, 2 (G - 1) / G of every weight") {
    PlanDegrees plan;
    plan.data = 8;
    CHECK(moved(test::derive(gpt_linears(512, 64), plan)) ==
          doctest::Approx(2 * 12 * kHidden * kHidden * 7 / 8));
  }

  TEST_CASE("Tensor3D: V = 2 B s / G H [12 (in - 1) + 4 (out - 1)] for a GPT block") {
    for (const int in : {1, 2, 4}) {
      for (const int out : {1, 2, 4, 8}) {
        CHECK(tensor_volume(in, out) == doctest::Approx(2 * kTokens / (in * out) * kHidden *
                                                        (12.0 * (in - 1) + 4.0 * (out - 1))));
      }
    }
  }

  TEST_CASE("Tensor3D: per layer (2 m / (in out)) [(in - 1) n + (out - 1) k]") {
    PlanDegrees plan;
    plan.tensor_in = 2;
    plan.tensor_out = 4;
    const Network pair = test::linear_pair(1024, 64, 256);
    const double normal = 2.0 * 1024 / 8 * (1 * 256 + 3 * 64);
    const double transposed = 2.0 * 1024 / 8 * (3 * 64 + 1 * 256);
    CHECK(moved(test::derive(pair, plan)) == doctest::Approx(normal + transposed));
  }

  TEST_CASE("Tensor3D: the best grids for 4 to 64 tensor ranks") {
    struct Row {
      int ranks, out, in;
      double over_megatron;
    };
    for (const Row& row : {Row{4, 4, 1, 1.000}, Row{8, 4, 2, 0.857}, Row{16, 8, 2, 0.667},
                           Row{32, 8, 4, 0.516}, Row{64, 16, 4, 0.381}}) {
      int best = 1;
      for (int in = 1; in <= row.ranks; in *= 2) {
        if (tensor_volume(in, row.ranks / in) < tensor_volume(best, row.ranks / best)) best = in;
      }
      CHECK(best == row.in);
      CHECK(row.ranks / best == row.out);
      CHECK(tensor_volume(best, row.ranks / best) / tensor_volume(1, row.ranks) ==
            doctest::Approx(row.over_megatron).epsilon(0.001));
    }
  }

  TEST_CASE("partition conserves FLOPs: local points times devices is the whole loop nest") {
    const Network network = test::mlp_block(1024, 64, 256);
    const Framework framework = test::plain_framework();
    for (const int in : {1, 2}) {
      for (const int out : {1, 4}) {
        for (const int depth : {1, 2}) {
          PlanDegrees plan;
          plan.tensor_in = in;
          plan.tensor_out = out;
          plan.tensor_depth = depth;
          plan.context = 2;
          plan.data = 3;
          plan.micro_batch = 5;
          const DeviceMesh mesh = make_device_mesh(plan, framework.rank_order);
          const PlacementRules rules = placement_rules(network, plan, mesh, framework);
          const Block& block = network.blocks[0];
          const BlockPlacement placement = place_block(network, block, rules);
          const double whole = 1024.0 * 64 * 256 * 5 * 3 * depth;
          CHECK(test::local_points(1, block, rules, placement) * plan.devices() ==
                doctest::Approx(whole));
          CHECK(test::local_points(3, block, rules, placement) * plan.devices() ==
                doctest::Approx(whole));
        }
      }
    }
  }

  TEST_CASE("fewer key/value heads than tensor ranks: repeated, gradients summed over the copies") {
    const Network network = test::attention_block(1024, 16, 4, 8);
    PlanDegrees plan;
    plan.tensor_out = 8;
    using Lines = std::vector<std::string>;
    CHECK(test::lines(network, test::derive(network, plan)) ==
          Lines{"forward: all-reduce out x8 of y, 131072 per use",
                "input-gradient: all-reduce out x8 of gradient of x, 131072 per use",
                "step: all-reduce out x2 of gradient of wk, 1024 per step",
                "step: all-reduce out x2 of gradient of wv, 1024 per step"});
  }

  TEST_CASE("Ulysses exchanges sequence for heads around attention and back") {
    // cp = 4, 16 heads of 8: q, k, v, o tiles are 1024/4 x 16 x 8 = 32768 elements.
    const Network network = test::attention_block(1024, 16, 16, 8);
    PlanDegrees plan;
    plan.context = 4;
    plan.context_kind = ContextKind::Ulysses;
    const auto demands = test::derive(network, plan);
    int exchanges = 0;
    for (const Communication& demand : demands) {
      if (demand.kind != CommunicationKind::AllToAll) continue;
      ++exchanges;
      CHECK(demand.elements == 32768);
      CHECK(demand.axes == AxisSet{Axis::Context});
    }
    CHECK(exchanges == 8);  // q, k, v, o forward; do, dq, dk, dv backward
  }

  TEST_CASE("gathered context: all keys and values, and their gradients back") {
    // cp = 4, 16 heads of 8: keys and values of the whole sequence are 1024 x 16 x 8 = 131072
    // elements each; queries stay where they are.
    const Network network = test::attention_block(1024, 16, 16, 8);
    PlanDegrees plan;
    plan.context = 4;
    plan.context_kind = ContextKind::AllGather;
    int gathers = 0;
    int scatters = 0;
    for (const Communication& demand : test::derive(network, plan)) {
      if (demand.subject != Subject::Activation && demand.subject != Subject::ActivationGradient) {
        continue;
      }
      CHECK(demand.elements == 131072);
      CHECK(demand.axes == AxisSet{Axis::Context});
      gathers += demand.kind == CommunicationKind::AllGather ? 1 : 0;
      scatters += demand.kind == CommunicationKind::ReduceScatter ? 1 : 0;
    }
    CHECK(gathers == 4);   // k and v, kept as they were produced: again in backward
    CHECK(scatters == 2);  // dk and dv
  }

  TEST_CASE("experts: tokens travel over the expert axis, tensor shards gather and scatter") {
    // 8 experts, top 2, ep 4, etp 2, tp 2 with sequence parallelism, dp 4: 8 ranks a stage.
    // Tokens per rank after routing: 4 x 1024 x 2 / 8 = 1024; x 64 features = 65536.
    const Network network = test::expert_block(1024, 64, 8, 2, 128);
    PlanDegrees plan;
    plan.data = 4;
    plan.tensor_out = 2;
    plan.sequence_parallel = SequenceParallel::On;
    plan.expert = 4;
    plan.expert_tensor = 2;
    using Lines = std::vector<std::string>;
    CHECK(test::lines(network, test::derive(network, plan)) ==
          Lines{"forward: all-to-all expert x4 of dispatched, 65536 per use",
                "forward: all-gather expert-tensor x2 of dispatched, 131072 per use",
                "forward: reduce-scatter expert-tensor x2 of down, 131072 per use",
                "forward: all-to-all expert x4 of down, 65536 per use",
                "input-gradient: all-to-all expert x4 of gradient of down, 65536 per use",
                "input-gradient: all-gather expert-tensor x2 of gradient of down, 131072 per use",
                "input-gradient: reduce-scatter expert-tensor x2 of gradient of dispatched, "
                "131072 per use",
                "input-gradient: all-to-all expert x4 of gradient of dispatched, 65536 per use"});
  }

  TEST_CASE("tied embeddings on two stages are summed once per step") {
    test::BlockBuilder b;
    const DimId vocab = b.dim("vocab", DimRole::Vocab, 1000);
    const DimId h = b.dim("hidden", DimRole::Hidden, 64);
    static_cast<void>(b.parameter("table", {vocab, h}));
    b.block.parameters[0].shared_key = "word_embeddings";
    Network network = b.finish();
    Framework framework = test::plain_framework();
    framework.vocab_multiple = 128;
    PlanDegrees plan;
    plan.tensor_out = 2;
    plan.pipeline = 4;
    const DeviceMesh mesh = make_device_mesh(plan, framework.rank_order);
    const PlacementRules rules = placement_rules(network, plan, mesh, framework);
    const TensorPolicies policies = tensor_policies(plan, mesh, framework, DataType::Bf16);
    const auto demands = derive_shared_parameters(network, rules, {{0}, {}, {}, {0}}, policies);
    REQUIRE(demands.size() == 1);
    CHECK(demands[0].communication.group_size == 2);
    CHECK(demands[0].communication.elements == 1024.0 / 2 * 64);  // 1000 padded to 4 x 256
    CHECK(demands[0].communication.scope == Scope::Step);
    CHECK(derive_shared_parameters(network, rules, {{0}}, policies).empty());
  }
}

}  // namespace
}  // namespace plansearch::closed_forms_test
