// SPDX-License-Identifier: Apache-2.0
// Shapes of the kernels of one device, derived by hand: micro-batch 2 of 512 tokens (1024 rows),
// hidden 1024, 16 heads of 64, tensor parallelism 2.
#include <doctest/doctest.h>

#include "cost/kernels/compute_cost.hpp"
#include "support/toy_class.hpp"
#include "workload/block_builder.hpp"

namespace plansearch::operator_time_test {
namespace {

PlanDegrees tensor_plan() {
  PlanDegrees plan;
  plan.tensor_out = 2;
  plan.data = 8;
  plan.micro_batch = 2;
  plan.micro_batches = 2;
  return plan;
}

double microseconds(Seconds time) {
  return time.value() * 1e6;
}

TEST_SUITE("unit") {
  TEST_CASE("a linear layer is one product forward and two backward") {
    // Y = X W: 1024 x 2048 (half of 4096), k = 1024. dX = dY W^T: 1024 x 1024, k = 2048.
    // dW = X^T dY: 1024 x 2048, k = 1024 rows, added into its buffer at 6 bytes an element.
    const test::ToyClass toy(test::toy_problem(), tensor_plan());
    const OperatorTime time = toy.time("decoder", "mlp_in");
    const auto product = [&](double m, double n, double k) {
      return matmul_time(toy.chip(), DataType::Bf16, {1, m, n, k});
    };
    const Seconds accumulation = Bytes(6.0 * 1024 * 2048) / (toy.chip().memory_bandwidth *
                                                             toy.chip().kernels.stream.efficiency);
    CHECK(microseconds(time.forward) == doctest::Approx(microseconds(product(1024, 2048, 1024))));
    CHECK(microseconds(time.backward) ==
          doctest::Approx(
              microseconds(product(1024, 1024, 2048) + product(1024, 2048, 1024) + accumulation)));
    CHECK(time.forward_kernels == 1);
    CHECK(time.backward_kernels == 2);
  }

  TEST_CASE("under tf32 logits and products of activations run in it too") {
    Problem problem = test::with_framework(test::toy_problem(), [](Framework& framework) {
      PrecisionPolicy& policy = framework.precision[DataType::Tf32];
      policy = framework.precision.at(DataType::Bf16);
      policy.matmul = DataType::Tf32;
      policy.activation = DataType::Fp32;
    });
    problem.precision = DataType::Tf32;
    auto cluster = std::make_shared<Cluster>(*problem.cluster);
    constexpr auto kTf32 = static_cast<std::size_t>(DataType::Tf32);
    cluster->accelerator.peak[kTf32] = FlopRate(2e14);
    cluster->accelerator.kernels.matmul[kTf32] =
        cluster->accelerator.kernels.matmul[static_cast<std::size_t>(DataType::Bf16)];
    problem.cluster = std::move(cluster);
    const test::ToyClass toy(problem, tensor_plan());
    const Seconds logits = matmul_time(toy.chip(), DataType::Tf32, {1, 1024, 51200 / 2, 1024});
    CHECK(microseconds(toy.time("head", "logits").forward) ==
          doctest::Approx(microseconds(logits)));
  }

  TEST_CASE("fp8: delayed maxima save a pass over the input, scales of rows add one") {
    // Inputs of 1024 x 1024 forward and 1024 x 2048 for the input gradient, 2 bytes an element more
    // or less; the weight gradient reads what is there.
    constexpr auto kFp8 = static_cast<std::size_t>(DataType::Fp8);
    const auto chip_with = [](double row_scaled) {
      auto cluster = std::make_shared<Cluster>(*test::toy_problem().cluster);
      cluster->accelerator.peak[kFp8] = FlopRate(6e14);
      MatmulCurve curve =
          *cluster->accelerator.kernels.matmul[static_cast<std::size_t>(DataType::Bf16)];
      curve.quantise_bytes = 6.0;
      curve.row_scaled = row_scaled;
      cluster->accelerator.kernels.matmul[kFp8] = curve;
      return cluster;
    };
    const auto time_of = [&](Fp8Recipe recipe, double row_scaled) {
      Problem problem = test::with_framework(test::toy_problem(), [&](Framework& framework) {
        framework.fp8_recipe = recipe;
        PrecisionPolicy& policy = framework.precision[DataType::Fp8];
        policy = framework.precision.at(DataType::Bf16);
        policy.matmul = DataType::Fp8;
      });
      problem.precision = DataType::Fp8;
      problem.cluster = chip_with(row_scaled);
      return test::ToyClass(problem, tensor_plan()).time("decoder", "mlp_in");
    };
    const OperatorTime tensor = time_of(Fp8Recipe::Tensorwise, 1.0);
    const OperatorTime row = time_of(Fp8Recipe::Rowwise, 1.0);
    const OperatorTime delayed = time_of(Fp8Recipe::Delayed, 1.0);
    const Bandwidth memory = test::toy_problem().cluster->accelerator.memory_bandwidth;
    const double forward = microseconds(Bytes(2.0 * 1024 * 1024) / memory);
    const double backward = microseconds(Bytes(2.0 * 1024 * 2048) / memory);
    CHECK(microseconds(row.forward - tensor.forward) == doctest::Approx(forward));
    CHECK(microseconds(row.backward - tensor.backward) == doctest::Approx(backward));
    CHECK(microseconds(tensor.forward - delayed.forward) == doctest::Approx(forward));
    CHECK(microseconds(tensor.backward - delayed.backward) == doctest::Approx(backward));
    // Kernels that take a scale a row have a rate of their own, and only they.
    CHECK(time_of(Fp8Recipe::Rowwise, 0.5).weight_gradient > tensor.weight_gradient);
    CHECK(time_of(Fp8Recipe::Tensorwise, 0.5).forward == tensor.forward);
  }

  TEST_CASE("a quantised weight is expanded before each product that reads it") {
    // Read in 4.127 bits and written in bf16, forward and for the input gradient; none is formed
    // for the weight.
    const double bytes = (4.0 / 8 + 1.0 / 64 + 4.0 / (64 * 256) + 2.0) * 1024 * 2048;
    const auto freeze = [](Network& network) {
      for (Block& block : network.blocks) {
        for (Parameter& parameter : block.parameters) {
          if (parameter.name == "mlp_in.weight") parameter.trainable = Trainable::No;
        }
      }
    };
    const Problem frozen = test::with_network(test::toy_problem(), freeze);
    const auto kept_in = [&](DataType type) {
      return test::with_framework(frozen, [&](Framework& framework) {
        framework.precision.at(DataType::Bf16).quantised = type;
      });
    };
    const test::ToyClass before(frozen, tensor_plan());
    const test::ToyClass after(kept_in(DataType::Nf4), tensor_plan());
    const Seconds pass =
        Bytes(bytes) / (after.chip().memory_bandwidth * after.chip().kernels.stream.efficiency);
    const OperatorTime plain = before.time("decoder", "mlp_in");
    const OperatorTime expanded = after.time("decoder", "mlp_in");
    CHECK(microseconds(expanded.forward - plain.forward) == doctest::Approx(microseconds(pass)));
    CHECK(microseconds(expanded.backward - plain.backward) == doctest::Approx(microseconds(pass)));
    CHECK(after.time("decoder", "mlp_out").forward == before.time("decoder", "mlp_out").forward);
    CHECK(after.time("head", "logits").forward == before.time("head", "logits").forward);
    CHECK(expanded.forward_kernels == plain.forward_kernels + 1);
    CHECK(expanded.backward_kernels == plain.backward_kernels + 1);
    // Tensor operations move 16 bytes beside the 4.156 bits, once: autograd keeps their result.
    const test::ToyClass by_operations(kept_in(DataType::Int4), tensor_plan());
    const OperatorTime kept = by_operations.time("decoder", "mlp_in");
    CHECK(kept.backward == plain.backward);
    CHECK((kept.forward - plain.forward) / pass ==
          doctest::Approx((16.0 + (4.0 + 20.0 / 128) / 8) * 1024 * 2048 / bytes));
  }

  TEST_CASE("products whose rows are no multiple of 16 bytes take longer, whatever the tokens") {
    const auto logits = [](std::int64_t vocab) {
      Problem problem = test::with_network(test::toy_problem(), [&](Network& network) {
        for (Dimension& dimension : network.dimensions) {
          if (dimension.role == DimRole::Vocab) dimension.extent = vocab;
        }
      });
      auto cluster = std::make_shared<Cluster>(*problem.cluster);
      for (auto& curve : cluster->accelerator.kernels.matmul) {
        if (curve) curve->unaligned_rows = 2.0;
      }
      problem.cluster = std::move(cluster);
      auto framework = std::make_shared<Framework>(*problem.framework);
      framework->vocab_multiple = 1;
      problem.framework = std::move(framework);
      PlanDegrees plan = tensor_plan();
      plan.micro_batch = 1;
      const test::ToyClass toy(problem, plan);
      return microseconds(toy.time("head", "logits").forward);
    };
    // 512 x 25600 and 25604 on a tensor rank: 8 and 4 elements of 2 bytes; the same tiles.
    const double aligned = logits(51200);
    CHECK(logits(51216) == doctest::Approx(aligned).epsilon(0.02));
    CHECK(logits(51208) == doctest::Approx(2.0 * aligned).epsilon(0.02));
  }

  TEST_CASE("frozen weights need the input gradient only") {
    const Problem frozen = test::with_network(test::toy_problem(), [](Network& network) {
      for (Block& block : network.blocks) {
        for (Parameter& parameter : block.parameters) parameter.trainable = Trainable::No;
      }
    });
    const test::ToyClass toy(frozen, tensor_plan());
    CHECK(microseconds(toy.time("decoder", "mlp_in").backward) ==
          doctest::Approx(
              microseconds(matmul_time(toy.chip(), DataType::Bf16, {1, 1024, 1024, 2048}))));
  }

  TEST_CASE("a convolution is the product of its patches") {
    // 64 x 64 places, windows of 3 x 3 over 320 channels, 640 channels out.
    const Problem problem = test::with_network(test::toy_problem(), [](Network& network) {
      BlockBuilder block(network, "convolution", BlockKind::Layer);
      const DimId b = block.dim("batch", DimRole::Batch, 1);
      const DimId y = block.dim("y", DimRole::Pixel, 64);
      const DimId x = block.dim("x", DimRole::Pixel, 64);
      const DimId p = block.dim("p", DimRole::Kernel, 3);
      const DimId q = block.dim("q", DimRole::Kernel, 3);
      const DimId c = block.dim("c", DimRole::Channel, 320);
      const DimId d = block.dim("d", DimRole::Channel, 640);
      Operator op;
      op.name = "conv";
      op.kind = OperatorKind::Convolution;
      op.loop = {b, y, x, p, q, c, d};
      op.inputs = {block.input("image", {b, y, x, c})};
      op.parameters = {block.parameter("weight", {p, q, c, d}, ParameterClass::Matrix)};
      op.outputs = {block.tensor("made", {b, y, x, d})};
      op.flops_per_point = 2.0;
      op.backward_kernels = 2;
      const TensorId out = block.add(op).outputs.front();
      network.order.push_back({block.finish({out}), 1});
    });
    const test::ToyClass toy(problem, tensor_plan());
    const OperatorTime time = toy.time("convolution", "conv");
    const double rows = 2 * 64.0 * 64.0;  // of two images
    CHECK(microseconds(time.forward) == doctest::Approx(microseconds(matmul_time(
                                            toy.chip(), DataType::Bf16, {1, rows, 640, 9 * 320}))));
    CHECK(time.backward > time.forward);
  }

  TEST_CASE("a depthwise convolution passes over its input and its result once a kernel") {
    // 64 x 64 places of 320 channels, every second one: 32 x 32 are made. Two images.
    const auto with_depthwise = [](Trainable trained, bool gradient) {
      return test::with_network(test::toy_problem(), [&](Network& network) {
        BlockBuilder block(network, "depthwise", BlockKind::Layer);
        const DimId b = block.dim("batch", DimRole::Batch, 1);
        const DimId y = block.dim("y", DimRole::Pixel, 64);
        const DimId x = block.dim("x", DimRole::Pixel, 64);
        const DimId v = block.dim("v", DimRole::Pixel, 32);
        const DimId u = block.dim("u", DimRole::Pixel, 32);
        const DimId p = block.dim("p", DimRole::Kernel, 3);
        const DimId q = block.dim("q", DimRole::Kernel, 3);
        const DimId c = block.dim("c", DimRole::Channel, 320);
        Operator op;
        op.name = "each";
        op.kind = OperatorKind::DepthwiseConvolution;
        op.loop = {b, v, u, c, p, q};
        op.inputs = {block.input("image", {b, y, x, c})};
        op.reads = {{{{{b, 1}}, 0, 1},
                     {{{v, 2}, {p, 1}}, -1, 1},
                     {{{u, 2}, {q, 1}}, -1, 1},
                     {{{c, 1}}, 0, 1}}};
        op.parameters = {block.parameter("weight", {p, q, c}, ParameterClass::Matrix)};
        op.outputs = {block.tensor("made", {b, v, u, c})};
        op.flops_per_point = 2.0;
        op.backward_kernels = 2;
        const TensorId out = block.add(op).outputs.front();
        network.order.push_back({block.finish({out}), 1});
        Block& made = network.blocks.back();
        made.parameters.front().trainable = trained;
        made.tensors.front().gradient = gradient;
      });
    };
    const auto time_of = [&](Trainable trained, bool gradient) {
      const test::ToyClass toy(with_depthwise(trained, gradient), tensor_plan());
      return std::pair(toy.time("depthwise", "each"), toy.chip());
    };
    const auto [time, chip] = time_of(Trainable::Yes, true);
    const double moved = 2.0 * 2 * 320 * (64 * 64 + 32 * 32);  // bf16
    const double pass = microseconds(stream_time(chip, Bytes(moved), 1));
    CHECK(microseconds(time.forward) == doctest::Approx(pass));
    CHECK(microseconds(time.backward) == doctest::Approx(2 * pass));
    CHECK(microseconds(time.weight_gradient) == doctest::Approx(pass));
    CHECK(time.backward_kernels == 2);
    CHECK(microseconds(time_of(Trainable::No, true).first.backward) == doctest::Approx(pass));
    CHECK(microseconds(time_of(Trainable::Yes, false).first.backward) == doctest::Approx(pass));
  }

  TEST_CASE("query, key and value are one product, charged once") {
    // 8 local heads of 64 each for query, key and value: 3 x 512 columns. With 4 key/value heads,
    // 2 of them local: 512 + 2 x 128.
    test::ToyOptions grouped;
    grouped.kv_heads = 4;
    for (const auto& [options, columns] :
         {std::pair{test::ToyOptions{}, 1536.0}, std::pair{grouped, 768.0}}) {
      const test::ToyClass toy(test::toy_problem(options), tensor_plan());
      CHECK(microseconds(toy.time("decoder", "query").forward) ==
            doctest::Approx(
                microseconds(matmul_time(toy.chip(), DataType::Bf16, {1, 1024, columns, 1024}))));
      for (const char* name : {"key", "value"}) {
        const OperatorTime time = toy.time("decoder", name);
        CHECK(time.forward == Seconds(0));
        CHECK(time.backward == Seconds(0));
        CHECK(time.forward_kernels + time.backward_kernels == 0);
      }
    }
  }

  TEST_CASE("attention runs the local heads, causally") {
    // Query i of 512 sees i keys: 512 x 513 / 2 of 512 x 512 pairs.
    test::ToyOptions grouped;
    grouped.kv_heads = 4;
    for (const auto& [options, kv] :
         {std::pair{test::ToyOptions{}, 8.0}, std::pair{grouped, 2.0}}) {
      const test::ToyClass toy(test::toy_problem(options), tensor_plan());
      const AttentionShape shape{2, 8, kv, 512, 512, 64, 64, 513.0 / 1024};
      const OperatorTime time = toy.time("decoder", "attention");
      CHECK(microseconds(time.forward) == doctest::Approx(microseconds(attention_time(
                                              toy.chip(), DataType::Bf16, shape, Pass::Forward))));
      CHECK(microseconds(time.backward) ==
            doctest::Approx(
                microseconds(attention_time(toy.chip(), DataType::Bf16, shape, Pass::Backward))));
    }
  }

  TEST_CASE("a norm streams its input and output, and its input once more in backward") {
    // 1024 x 1024 bf16 in and out, mean and deviation of 1024 rows in fp32.
    const test::ToyClass toy(test::toy_problem(), tensor_plan());
    const double tensor = 2.0 * 1024 * 1024;
    const double out = tensor + 4.0 * 2 * 1024;
    const OperatorTime time = toy.time("decoder", "norm1");
    CHECK(microseconds(time.forward) ==
          doctest::Approx(microseconds(stream_time(toy.chip(), Bytes(tensor + out), 1))));
    CHECK(microseconds(time.backward) ==
          doctest::Approx(microseconds(stream_time(toy.chip(), Bytes(tensor + 2 * out), 2))));
  }

  TEST_CASE("the loss moves its share of the vocabulary") {
    // 1024 x 25600 logits on each tensor rank, read once forward, read and rewritten in backward.
    const test::ToyClass toy(test::toy_problem(), tensor_plan());
    const double logits = 2.0 * 1024 * 25600;
    const OperatorTime time = toy.time("head", "loss");
    CHECK(microseconds(time.forward) ==
          doctest::Approx(microseconds(stream_time(toy.chip(), Bytes(logits), 8))));
    CHECK(microseconds(time.backward) ==
          doctest::Approx(microseconds(stream_time(toy.chip(), Bytes(2 * logits), 8))));
  }

  TEST_CASE("an operator with a counted implementation passes over its tensors as counted") {
    // Per element, forward 4 bf16 and 7 fp32, backward 8, 15 and one byte: 2 * 4 + 4 * 7 = 36
    // bytes, 2 * 8 + 4 * 15 + 1 = 77 bytes of each of 1024 x 1024 elements, statistics left out.
    const Problem eager = test::with_framework(test::toy_problem(), [](Framework& framework) {
      const auto norm = static_cast<std::size_t>(MemoryBound::LayerNorm);
      framework.operators.known[norm]["eager"] = {
          .forward = {4, 7, 0}, .backward = {8, 15, 1}, .keeps = {}, .source = {}};
      choose_set(framework.operators, "eager");
    });
    const test::ToyClass toy(eager, tensor_plan());
    const OperatorTime time = toy.time("decoder", "norm1");
    const double elements = 1024.0 * 1024;
    CHECK(microseconds(time.forward) ==
          doctest::Approx(microseconds(stream_time(toy.chip(), Bytes(36 * elements), 1))));
    CHECK(microseconds(time.backward) ==
          doctest::Approx(microseconds(stream_time(toy.chip(), Bytes(77 * elements), 2))));
    CHECK(microseconds(toy.time("decoder", "residual1").forward) ==
          doctest::Approx(microseconds(stream_time(toy.chip(), Bytes(6 * elements), 1))));
  }

  TEST_CASE("experts: the busiest group of local experts decides") {
    // 8 experts, top 2, ep 4: 2 local experts; the 4 ranks of a group send 4 x 1024 x 2 rows to 8
    // experts, 1024 each; the busiest get 1.5 times as many. Grouped kernels reach 0.75 and pay
    // 20 us for each local expert.
    test::ToyOptions options;
    options.experts = 8;
    options.imbalance = 1.5;
    PlanDegrees plan;
    plan.data = 16;
    plan.expert = 4;
    plan.micro_batch = 2;
    plan.micro_batches = 1;
    const test::ToyClass toy(test::toy_problem(options), plan);
    const auto product = [&](double n, double k) {
      return matmul_time(toy.chip(), DataType::Bf16, {2, 1536, n, k}) / 0.75 + Seconds(40e-6);
    };
    CHECK(microseconds(toy.time("decoder-experts", "expert_in").forward) ==
          doctest::Approx(microseconds(product(4096, 1024))));
    CHECK(microseconds(toy.time("decoder-experts", "expert_out").forward) ==
          doctest::Approx(microseconds(product(1024, 4096))));
  }
}

}  // namespace
}  // namespace plansearch::operator_time_test
