// SPDX-License-Identifier: Apache-2.0
// The six worked derivations: small operators, the list of communication written by hand.
#include <doctest/doctest.h>

#include "communication/redistribution/redistribution.hpp"
#include "small_networks.hpp"
#include "unit/communication/reference_sizes.hpp"

namespace plansearch::derivation_test {
namespace {

using Lines = std::vector<std::string>;

TEST_SUITE("unit") {
  TEST_CASE("derivation 1a: Megatron tensor parallelism all-reduces once per direction and pair") {
    // up is split by columns (n: out), down by rows (k: out): `down` is partial over out; backward,
    // the gradient of `normed` is partial over out because up contracts n = ffn.
    // Full messages: tokens x hidden = 1024 x 64 = 65536.
    const Network network = test::mlp_block(1024, 64, 256);
    PlanDegrees plan;
    plan.tensor_out = 4;
    CHECK(test::lines(network, test::derive(network, plan)) ==
          Lines{"forward: all-reduce out x4 of down, 65536 per use",
                "input-gradient: all-reduce out x4 of gradient of normed, 65536 per use"});
  }

  TEST_CASE("derivation 1b: tokens over out turn each all-reduce into gather and scatter") {
    // Norm and addition work on tokens/4. Forward: gather `normed`, scatter `down`. Backward: the
    // mirror. The weight gradient of up needs `normed` again, which was kept scattered. gamma saw
    // only a quarter of the tokens on each rank: its gradient is summed over out once per step.
    const Network network = test::mlp_block(1024, 64, 256);
    PlanDegrees plan;
    plan.tensor_out = 4;
    plan.sequence_parallel = SequenceParallel::On;
    CHECK(test::lines(network, test::derive(network, plan)) ==
          Lines{"forward: all-gather out x4 of normed, 65536 per use",
                "forward: reduce-scatter out x4 of down, 65536 per use",
                "input-gradient: all-gather out x4 of gradient of down, 65536 per use",
                "input-gradient: reduce-scatter out x4 of gradient of normed, 65536 per use",
                "weight-gradient: all-gather out x4 of normed, 65536 per use",
                "step: all-reduce out x4 of gradient of gamma, 64 per step"});
  }

  TEST_CASE("a pair of convolutions is cut as an MLP; a norm of whole groups exchanges nothing") {
    // 8 x 8 places; 64 channels of the stream, 128 inside: full messages of 8 * 8 * 64 = 4096 and
    // 8192. Cut: channels inside over out, the stream over in.
    const auto network = [](std::int64_t groups) {
      test::BlockBuilder b;
      const DimId y = b.dim("y", DimRole::Pixel, 8);
      const DimId x = b.dim("x", DimRole::Pixel, 8);
      const DimId c = b.dim("c", DimRole::Channel, 64);
      const DimId k = b.dim("k", DimRole::Ffn, 128);
      const TensorId in = b.tensor("in", {y, x, c});
      const TensorId inside = b.tensor("inside", {y, x, k});
      const TensorId normed = b.tensor("normed", {y, x, k});
      const TensorId out = b.tensor("out", {y, x, c});
      b.op("first", OperatorKind::Convolution, {y, x, c, k}, {in}, {b.parameter("w1", {c, k})},
           {inside});
      b.op("norm", OperatorKind::Norm, {y, x, k}, {inside}, {}, {normed});
      b.block.operators.back().groups = groups;
      b.op("second", OperatorKind::Convolution, {y, x, k, c}, {normed}, {b.parameter("w2", {k, c})},
           {out});
      b.block.inputs = {in};
      b.block.outputs = {out};
      return b.finish();
    };
    PlanDegrees plan;
    plan.tensor_out = 4;
    const Network whole_groups = network(32);
    CHECK(test::lines(whole_groups, test::derive(whole_groups, plan)) ==
          Lines{"forward: all-reduce out x4 of out, 4096 per use",
                "input-gradient: all-reduce out x4 of gradient of in, 4096 per use"});
    // Two groups over four ranks: sum and sum of squares of the one group that a rank has a part
    // of, in both passes.
    const Network cut_groups = network(2);
    CHECK(test::lines(cut_groups, test::derive(cut_groups, plan)) ==
          Lines{"forward: all-reduce out x4 of statistics of norm, 2 per use",
                "forward: all-reduce out x4 of out, 4096 per use",
                "input-gradient: all-reduce out x4 of statistics of norm, 2 per use",
                "input-gradient: all-reduce out x4 of gradient of in, 4096 per use"});
    plan.tensor_in = 2;
    CHECK(test::lines(whole_groups, test::derive(whole_groups, plan)) ==
          Lines{"forward: all-reduce in x2 of inside, 2048 per use",
                "forward: all-reduce out x4 of out, 2048 per use",
                "input-gradient: all-reduce in x2 of gradient of normed, 2048 per use",
                "input-gradient: all-reduce out x4 of gradient of in, 2048 per use"});
  }

  TEST_CASE("a bias is added to the summed output") {
    // One row-parallel linear with a bias of 64: the ranks of `out` all add the same bias to the
    // same sums, so its gradient is complete; with tokens over out each saw a quarter of them.
    test::BlockBuilder b;
    const DimId seq = b.dim("sequence", DimRole::Sequence, 1024);
    const DimId h = b.dim("hidden", DimRole::Hidden, 64);
    const DimId f = b.dim("ffn", DimRole::Ffn, 256);
    const TensorId x = b.tensor("x", {seq, f});
    const TensorId y = b.tensor("y", {seq, h});
    b.op("down", OperatorKind::Matmul, {seq, f, h}, {x},
         {b.parameter("w", {f, h}), b.parameter("bias", {h})}, {y});
    b.block.inputs = {x};
    b.block.outputs = {y};
    const Network network = b.finish();
    PlanDegrees plan;
    plan.tensor_out = 4;
    CHECK(test::lines(network, test::derive(network, plan)) ==
          Lines{"forward: all-reduce out x4 of y, 65536 per use"});
    plan.sequence_parallel = SequenceParallel::On;
    CHECK(test::lines(network, test::derive(network, plan)) ==
          Lines{"forward: reduce-scatter out x4 of y, 65536 per use",
                "input-gradient: all-gather out x4 of gradient of y, 65536 per use",
                "step: all-reduce out x4 of gradient of bias, 64 per step"});
    plan.context = 2;  // weight and bias are also summed over context
    CHECK(test::derive(network, plan).size() == 5);
  }

  TEST_CASE("what is computed from parameters alone is summed with them, once per step") {
    // A table of 16 biases, one per head, added to every sequence: the sum over sequences is left
    // to the gradient of the table, no all-reduce in the middle of backward.
    test::BlockBuilder b;
    const DimId batch = b.dim("batch", DimRole::Batch, 1);
    const DimId head = b.dim("head", DimRole::Head, 16);
    const DimId bucket = b.dim("bucket", DimRole::Position, 32);
    const TensorId bias = b.tensor("bias", {head});
    const TensorId x = b.tensor("x", {batch, head});
    const TensorId y = b.tensor("y", {batch, head});
    b.op("look up", OperatorKind::Embedding, {bucket, head}, {}, {b.parameter("t", {bucket, head})},
         {bias});
    b.op("add", OperatorKind::Elementwise, {batch, head}, {x, bias}, {}, {y});
    b.block.inputs = {x};
    b.block.outputs = {y};
    const Network network = b.finish();
    PlanDegrees plan;
    plan.data = 4;
    CHECK(test::lines(network, test::derive(network, plan)) ==
          Lines{"step: all-reduce data x4 of gradient of t, 512 per step"});
  }

  TEST_CASE("derivation 2: FSDP gathers per use and scatters gradients per micro-batch") {
    // Storage of every parameter: flat over data. 64 x 256 = 16384 elements per matrix.
    const Network network = test::linear_pair(1024, 64, 256);
    PlanDegrees plan;
    plan.data = 8;
    plan.zero = ZeroStage::Parameters;
    CHECK(
        test::lines(network, test::derive(network, plan)) ==
        Lines{"forward: all-gather data x8 of w1, 16384 per use",
              "forward: all-gather data x8 of w2, 16384 per use",
              "input-gradient: all-gather data x8 of w2, 16384 per use",
              "input-gradient: all-gather data x8 of w1, 16384 per use",
              "weight-gradient: reduce-scatter data x8 of gradient of w2, 16384 per micro-batch",
              "weight-gradient: reduce-scatter data x8 of gradient of w1, 16384 per micro-batch"});
  }

  TEST_CASE("derivation 2b: the other ZeRO stages and hybrid shard are settings of the policy") {
    const Network network = test::linear_pair(1024, 64, 256);
    PlanDegrees plan;
    plan.data = 8;
    CHECK(test::lines(network, test::derive(network, plan)) ==
          Lines{"step: all-reduce data x8 of gradient of w1, 16384 per step",
                "step: all-reduce data x8 of gradient of w2, 16384 per step"});
    plan.zero = ZeroStage::Optimizer;
    CHECK(test::lines(network, test::derive(network, plan)) ==
          Lines{"step: reduce-scatter data x8 of gradient of w1, 16384 per step",
                "step: all-gather data x8 of w1, 16384 per step",
                "step: reduce-scatter data x8 of gradient of w2, 16384 per step",
                "step: all-gather data x8 of w2, 16384 per step"});
    plan.zero = ZeroStage::Gradients;
    CHECK(test::lines(network, test::derive(network, plan)) ==
          Lines{"weight-gradient: reduce-scatter data x8 of gradient of w2, 16384 per micro-batch",
                "weight-gradient: reduce-scatter data x8 of gradient of w1, 16384 per micro-batch",
                "step: all-gather data x8 of w1, 16384 per step",
                "step: all-gather data x8 of w2, 16384 per step"});
    plan.zero = ZeroStage::Parameters;
    plan.shard_group = 2;  // four copies of two shards: gather 2, scatter 2, then sum the copies
    const auto hybrid = test::lines(network, test::derive(network, plan));
    REQUIRE(hybrid.size() == 8);
    CHECK(hybrid[0] == "forward: all-gather shard x2 of w1, 16384 per use");
    CHECK(hybrid[4] ==
          "weight-gradient: reduce-scatter shard x2 of gradient of w2, 16384 per micro-batch");
    CHECK(hybrid[5] ==
          "weight-gradient: all-reduce replica x4 of gradient of w2, 8192 per micro-batch");
  }

  TEST_CASE("derivation 3: an AxoNN pair needs no re-layout between its layers") {
    // in = 2, out = 4, z = 2, data = 3; local tokens m = 1024 (of one micro-batch); k = 64, n =
    // 256.
    //  AG(z) of W:   k n / (in out)      = 2048      normal and transposed, forward and backward
    //  Y partial on in:  m n / out       = 65536     already the transposed layer's input
    //  Y' partial on out: m k / in       = 32768     already the next normal layer's input
    //  dX of the transposed layer: in, m n / out;  of the normal layer: out, m k / in
    //  dW: RS(z) k n / (in out) = 2048 per micro-batch, AR(data) k n / (in out z) = 1024 per step
    const Network network = test::linear_pair(1024, 64, 256);
    PlanDegrees plan;
    plan.tensor_in = 2;
    plan.tensor_out = 4;
    plan.tensor_depth = 2;
    plan.data = 3;
    CHECK(test::lines(network, test::derive(network, plan)) ==
          Lines{"forward: all-gather depth x2 of w1, 2048 per use",
                "forward: all-reduce in x2 of u, 65536 per use",
                "forward: all-gather depth x2 of w2, 2048 per use",
                "forward: all-reduce out x4 of y, 32768 per use",
                "input-gradient: all-gather depth x2 of w2, 2048 per use",
                "input-gradient: all-reduce in x2 of gradient of u, 65536 per use",
                "input-gradient: all-gather depth x2 of w1, 2048 per use",
                "input-gradient: all-reduce out x4 of gradient of x, 32768 per use",
                "weight-gradient: reduce-scatter depth x2 of gradient of w2, 2048 per micro-batch",
                "weight-gradient: reduce-scatter depth x2 of gradient of w1, 2048 per micro-batch",
                "step: all-reduce data x3 of gradient of w1, 1024 per step",
                "step: all-reduce data x3 of gradient of w2, 1024 per step"});
  }

  TEST_CASE(
      "derivation 5: co-shard communicates as its tensor degree, however many pieces follow") {
    // Communication is that of the smaller tensor degree: 2 (g - 1) / g of the same message.
    const Network network = test::mlp_block(1024, 64, 256);
    const auto moved = [&](int tensor) {
      PlanDegrees plan;
      plan.tensor_out = tensor;
      double sum = 0.0;
      for (const Communication& d : test::derive(network, plan)) {
        sum += elements_moved(d.kind, d.group_size, d.elements);
      }
      return sum;
    };
    CHECK(moved(2) == doctest::Approx(moved(16) * (1.0 / 2) / (15.0 / 16)));
  }

  TEST_CASE("derivation 6: interlaced: the vocabulary over all stages is a gang in step") {
    // Vocab over pipeline x out instead of out: every stage holds 1/8 of the table. Its partial
    // rows are summed over all stages, a synchronous slot of the whole gang: 128 tokens x 64.
    test::BlockBuilder b;
    const DimId batch = b.dim("batch", DimRole::Batch, 1);
    const DimId seq = b.dim("sequence", DimRole::Sequence, 128);
    const DimId vocab = b.dim("vocab", DimRole::Vocab, 4096);
    const DimId h = b.dim("hidden", DimRole::Hidden, 64);
    const TensorId tokens = b.tensor("tokens", {batch, seq}, ElementClass::Index);
    const TensorId x = b.tensor("x", {batch, seq, h});
    const ParameterId table = b.parameter("table", {vocab, h});
    b.op("embedding", OperatorKind::Embedding, {batch, seq, vocab, h}, {tokens}, {table}, {x});
    b.block.inputs = {tokens};
    b.block.outputs = {x};
    const Network network = b.finish();
    const Framework framework = test::plain_framework();
    PlanDegrees plan;
    plan.pipeline = 4;
    plan.tensor_out = 2;
    const DeviceMesh mesh = make_device_mesh(plan, framework.rank_order);
    PlacementRules rules = placement_rules(network, plan, mesh, framework);
    rules.slices[0][static_cast<std::size_t>(vocab)] =
        SliceMap::shard(mesh, {Axis::Pipeline, Axis::Out});
    const BlockPlacement placement = place_block(network, network.blocks[0], rules);
    CHECK(test::local_parameter_elements(network.blocks[0], 0, table, rules, placement) ==
          4096.0 * 64 / 8);
    const auto demands = test::derive_communication(
        network, network.blocks[0], rules, placement,
        tensor_policies(plan, mesh, framework, DataType::Bf16), framework.sharding);
    CHECK(test::lines(network, demands) ==
          Lines{"forward: all-reduce out x2 of x, 8192 per use",
                "forward: all-reduce pipeline x4 of x, 8192 per use"});
  }
}

}  // namespace
}  // namespace plansearch::derivation_test
