// SPDX-License-Identifier: Apache-2.0
// Model FLOPs against the closed forms people use.
#include <doctest/doctest.h>

#include "descriptions.hpp"

namespace plansearch::flops_test {

TEST_SUITE("unit") {
  TEST_CASE("GPT-3 175B: the formula of Narayanan et al. with the causal discount") {
    // arXiv:2104.04473, section 5.1: 96 B s l h^2 (1 + s/(6h) + V/(16 l h)) per iteration with full
    // recompute: four forward-equivalents of layers, three of logits. One forward pass is
    // 24 B s l h^2 + 4 B s^2 l h (all key positions) + 2 B s h V; causal attention needs
    // (s + 1)/(2s) of its term.
    const double s = 2048;
    const double l = 96;
    const double h = 12288;
    const double v = 51200;
    const Network network = build_network(test::gpt(96, 12288, 96, 51200, 2048));
    const double attention = 4 * s * s * l * h;
    const double layers = 24 * s * l * h * h;
    const double logits = 2 * s * h * v;
    CHECK(model_forward_flops(network).value() ==
          doctest::Approx(layers + attention * (s + 1) / (2 * s) + logits).epsilon(1e-13));
    const double published = 96 * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
    CHECK(4 * (layers + attention) + 3 * logits == doctest::Approx(published).epsilon(1e-13));
  }

  TEST_CASE("forward FLOPs are two per parameter and token, but for look-ups and attention") {
    const Network network = build_network(test::llama(32, 4096, 32, 8, 14336, 128256));
    const double s = 4096;
    const double looked_up = 128256.0 * 4096;
    const double norms = 65.0 * 4096;
    const double products = static_cast<double>(parameter_count(network)) - looked_up - norms;
    const double attention = 4 * s * s * 32 * 4096 * (s + 1) / (2 * s);
    CHECK(model_forward_flops(network).value() ==
          doctest::Approx(2 * s * products + attention).epsilon(1e-13));
  }

  TEST_CASE("a masked language model computes logits of its masked tokens") {
    // 0.15 of 128 tokens are 19.2: 20 of them meet the transform and the vocabulary.
    ModelDescription model = test::gpt(2, 64, 4, 512, 128);
    model.stack = StackKind::Encoder;
    model.embedding.head_transform = HeadTransform::Biased;
    const double all = model_forward_flops(build_network(model)).value();
    model.embedding.predicted = 0.15;
    const Network some = build_network(model);
    CHECK(all - model_forward_flops(some).value() ==
          doctest::Approx((128 - 20) * 2.0 * 64 * (64 + 512)).epsilon(1e-12));
    model.embedding.predicted = 1e-9;
    CHECK(all - model_forward_flops(build_network(model)).value() ==
          doctest::Approx((128 - 1) * 2.0 * 64 * (64 + 512)).epsilon(1e-12));
    CHECK(parameter_count(some) == parameter_count(build_network(model)));
  }

  TEST_CASE("experts: every token meets top-k of them, whatever the rounding") {
    for (const std::int64_t experts : {8, 48, 384}) {
      ModelDescription model = test::with_experts(test::llama(1, 64, 8, 8, 96, 128), experts, 8);
      const double s = 4096;
      const Network network = build_network(model);
      ModelDescription dense = model;
      dense.moe.reset();
      const double mlp = 2 * s * 3 * 64 * 96;
      const double router = 2 * s * 64 * static_cast<double>(experts);
      CHECK(model_forward_flops(network).value() ==
            doctest::Approx(model_forward_flops(build_network(dense)).value() + 7 * mlp + router)
                .epsilon(1e-12));
    }
  }

  TEST_CASE("latent attention counts both head sizes") {
    ModelDescription model = test::llama(1, 64, 8, 8, 96, 128);
    model.attention.latent = LatentAttention{24, 16, 8, 4, 8};
    const Network network = build_network(model);
    const double s = 4096;
    const double projections = 64 * 24 + 24 * 8 * 12 + 64 * (16 + 4) + 16 * 8 * 16 + 8 * 8 * 64;
    const double rest = 3 * 64 * 96 + 64 * 128;
    const double attention = 2 * (12 + 8) * 8 * s * (s + 1) / 2;
    CHECK(model_forward_flops(network).value() ==
          doctest::Approx(2 * s * (projections + rest) + attention).epsilon(1e-13));
  }

  TEST_CASE("a window cuts the attention work") {
    ModelDescription model = test::llama(1, 64, 8, 8, 96, 128);
    const double full = model_forward_flops(build_network(model)).value();
    model.attention.window = 128;
    const double cut = model_forward_flops(build_network(model)).value();
    const double s = 4096;
    const double w = 128;
    const double pairs = s * (s + 1) / 2 - (w * (w + 1) / 2 + (s - w) * w);
    CHECK(full - cut == doctest::Approx(4 * 64 * pairs).epsilon(1e-12));
  }

  TEST_CASE("unfused: backward is twice forward, so training is three forward passes") {
    const Network network =
        build_network(test::gpt(4, 64, 4, 128, 32), {.attention = AttentionKind::Unfused});
    double forward = 0.0;
    double backward = 0.0;
    for (const BlockRun& run : network.order) {
      for (const Operator& op : network.blocks[run.block].operators) {
        const double flops = operator_forward_flops(network, op).value() * op.useful_fraction *
                             static_cast<double>(run.count);
        forward += flops;
        backward += flops * op.backward_flops_factor;
      }
    }
    CHECK(forward == doctest::Approx(model_forward_flops(network).value()).epsilon(1e-14));
    CHECK(backward == doctest::Approx(2 * forward).epsilon(1e-14));
  }

  TEST_CASE("every further layer adds the same work and the same parameters") {
    const auto flops = [](std::int64_t layers) {
      return model_forward_flops(build_network(test::gpt(layers, 64, 4, 128, 32))).value();
    };
    const auto parameters = [](std::int64_t layers) {
      return parameter_count(build_network(test::gpt(layers, 64, 4, 128, 32)));
    };
    CHECK(flops(7) - flops(6) == doctest::Approx(flops(2) - flops(1)).epsilon(1e-12));
    CHECK(parameters(7) - parameters(6) == parameters(2) - parameters(1));
    CHECK(parameters(2) - parameters(1) == 12 * 64 * 64 + 13 * 64);
  }

  TEST_CASE("fused attention computes the scores again in backward: five products for two") {
    const Network network = build_network(test::llama(1, 64, 8, 8, 96, 128));
    for (const Operator& op : test::block_named(network, "decoder").operators) {
      if (op.kind == OperatorKind::Attention) CHECK(op.backward_flops_factor == 2.5);
    }
  }

  TEST_CASE("windows: sliding, in chunks, on both sides, by pattern") {
    // One layer with attention alone in front: pairs are what is left of 20 x 20, by hand.
    ModelDescription model = test::llama(1, 64, 8, 8, 96, 128);
    const double pair = 4 * 64;  // FLOPs of a query and key: two products over 64 features
    const auto flops = [&](const ModelDescription& m) {
      return model_forward_flops(build_network(m, {.seq_len = 20})).value();
    };
    const double rest = flops(model) - pair * (20 * 21) / 2.0;
    model.attention.window = 8;
    // 1 + ... + 8, then 12 queries of 8.
    CHECK(flops(model) - rest == doctest::Approx(pair * (36 + 12 * 8)));
    model.attention.window_kind = WindowKind::Chunked;
    // Chunks of 8, 8 and 4: 36 + 36 + 10.
    CHECK(flops(model) - rest == doctest::Approx(pair * 82));
    model.attention.window_kind = WindowKind::Sliding;
    model.stack = StackKind::Encoder;
    model.attention.window = 4;
    // Two on either side: 3, 4, 16 times 5, 4, 3.
    CHECK(flops(model) - rest == doctest::Approx(pair * 94));
    model.stack = StackKind::Decoder;
    model.attention.window = 8;

    // Which of five layers see everything.
    model.layers = 5;
    const double all = pair * 210;
    const double some = pair * 132;
    const auto attention = [&] {
      return flops(model) - (flops(test::llama(5, 64, 8, 8, 96, 128)) - 5 * all);
    };
    CHECK(attention() == doctest::Approx(5 * some));
    model.attention.full_attention_every = 2;
    CHECK(attention() == doctest::Approx(3 * some + 2 * all));
    model.attention.leading_full = 3;
    CHECK(attention() == doctest::Approx(some + 4 * all));
    model.attention.full_layers = {true, false, false};
    CHECK(attention() == doctest::Approx(3 * some + 2 * all));
  }

  TEST_CASE("experts in named layers") {
    // Which layers have experts shows in the number of parameters: 8 MLPs and a router, or one MLP.
    const double mlp = 3 * 64 * 96;
    const double more = 7 * mlp + 64 * 8;
    const auto count = [](const ModelDescription& m) {
      return static_cast<double>(parameter_count(build_network(m)));
    };
    const double dense = count(test::llama(6, 64, 8, 8, 96, 128));
    ModelDescription model = test::with_experts(test::llama(6, 64, 8, 8, 96, 128), 8, 2);
    CHECK(count(model) == dense + 6 * more);
    model.moe->dense_layers = {0, 4};
    CHECK(count(model) == dense + 4 * more);
    model.moe->every = 2;  // layers 1, 3, 5
    CHECK(count(model) == dense + 3 * more);
    model.moe->layers = {5};
    CHECK(count(model) == dense + more);
    model.moe->layers = {6};
    CHECK_FALSE(contradictions(model).empty());
  }
}

}  // namespace plansearch::flops_test
