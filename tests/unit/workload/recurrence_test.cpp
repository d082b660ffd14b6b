// SPDX-License-Identifier: Apache-2.0
// Mixers that keep a state, and attention to chosen and pooled keys: closed forms of FLOPs,
// parameters and saved tensors.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "io/model/model_reader.hpp"
#include "plansearch/transformer_builder.hpp"
#include "support/broken_rules.hpp"
#include "support/source_directory.hpp"
#include "workload/block_builder.hpp"

namespace plansearch::recurrence_test {
namespace {

constexpr double kTokens = 4096;

Network one_layer(const std::string& sections) {
  const std::string text =
      "schema: plansearch/model/v1\nname: one\nsource: \"a test\"\nlayers: 1\nhidden: 64\n"
      "mlp: {width: 64, activation: silu}\nnorm: {kind: rmsnorm}\nembedding: {vocab: 128}\n"
      "training: {seq_len: 4096, global_batch: 8}\nlayer_feed_forwards: [none]\n" +
      sections;
  return build_network(io::read_model(io::Document::parse(text, "m.yaml", io::Syntax::Yaml), "m",
                                      PLANSEARCH_SOURCE_DIR "/models/families")
                           .model);
}

const std::string kPlain = "attention: {heads: 4, positions: none}\n";

Network mixer(const std::string& row) {
  return one_layer(kPlain + "mixers: {state: {" + row + "}}\nlayer_mixers: [state]\n");
}

const Operator& find(const Network& network, const std::string& name) {
  const auto& operators = network.blocks[1].operators;
  const auto found = std::find_if(operators.begin(), operators.end(),
                                  [&](const Operator& op) { return op.name == name; });
  REQUIRE(found != operators.end());
  return *found;
}

double flops(const Network& network, const std::string& name) {
  return useful_forward_flops(network, find(network, name)).value();
}

/// Elements that the layer keeps, in the activation format.
double kept(const Network& network) {
  const Block& block = network.blocks[1];
  double sum = 0.0;
  for (const Operator& op : block.operators) {
    for (const Saved& saved : op.saved) {
      const Tensor& tensor = block.tensor(saved.tensor);
      if (tensor.element == ElementClass::Activation)
        sum += element_count(network, tensor.dims) * saved.count;
    }
  }
  return sum;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("state space: 4 N P FLOPs a head, its products alone are kept") {
    const Network network = mixer(
        "form: mamba2, heads: 16, key_heads: 2, key_size: 32, value_size: 8, taps: 4, "
        "convolution_bias: true, norm: each-head");
    CHECK(flops(network, "mixer_scan") == kTokens * 16 * 4 * 32 * 8);
    // In H -> 2 H P + 2 G N + H, convolution (H P + 2 G N) x 4 and bias, A, D and dt, norm, out.
    const double hp = 16 * 8;
    const double gn = 2 * 32;
    CHECK(block_parameter_count(network, network.blocks[1]) ==
          64 * (2 * hp + 2 * gn + 16) + (hp + 2 * gn) * 5 + 3 * 16 + hp + hp * 64 + 64);
    // Stream and norm, the parts of the product, the result of the recurrence and of its norm.
    CHECK(kept(network) == kTokens * (2 * 64 + (2 * hp + 2 * gn + 16) + 2 * hp));
    CHECK(test::broken_rules(network).empty());
  }

  TEST_CASE(
      "delta rule: 6 N P FLOPs a head; what convolutions make and a chunk's matrix are kept") {
    const Network network = mixer(
        "form: gated-delta, heads: 16, key_heads: 4, key_size: 32, value_size: 8, taps: 4, "
        "norm: per-head");
    CHECK(flops(network, "mixer_scan") == kTokens * 16 * 6 * 32 * 8);
    const double hp = 16 * 8;
    const double gn = 4 * 32;
    CHECK(block_parameter_count(network, network.blocks[1]) ==
          64 * (2 * gn + 2 * hp + 2 * 16) + (2 * gn + hp) * 4 + 2 * 16 + 8 + hp * 64 + 64);
    const double products = 2 * gn + 2 * hp + 2 * 16;
    CHECK(kept(network) == kTokens * (2 * 64 + products + (2 * gn + hp) + 16 * 64 + 2 * hp));
    CHECK(test::broken_rules(network).empty());
  }

  TEST_CASE("every form of the table builds a network that keeps what it needs") {
    for (const char* form : {"mamba2", "mamba1", "jamba", "gated-delta", "kimi-delta", "lightning",
                             "short-convolution"}) {
      CAPTURE(form);
      const Network network =
          mixer("form: " + std::string(form) +
                ", heads: 16, key_size: 8, value_size: 8, rank: 4, taps: 4, norm: per-head");
      for (const std::string& broken : test::broken_rules(network)) FAIL_CHECK(broken);
    }
  }

  TEST_CASE("a gate on attention: as wide as its result, or a number a head") {
    const double plain = block_parameter_count(one_layer(kPlain), one_layer(kPlain).blocks[1]);
    const Network full = one_layer("attention: {heads: 4, positions: none, gate: full}\n");
    const Network head = one_layer("attention: {heads: 4, positions: none, gate: per-head}\n");
    CHECK(block_parameter_count(full, full.blocks[1]) == plain + 64 * 64);
    CHECK(block_parameter_count(head, head.blocks[1]) == plain + 64 * 4);
    const Network narrow = one_layer("attention: {heads: 4, positions: none, value_size: 8}\n");
    CHECK(block_parameter_count(narrow, narrow.blocks[1]) == plain - 2 * 64 * 4 * 8);
    // 2 (d_qk + d_v) a head and visible key.
    CHECK(flops(narrow, "attention") ==
          doctest::Approx(2.0 * (16 + 8) * 4 * kTokens * (kTokens + 1) / 2));
  }

  TEST_CASE("chosen keys: scores of all visible ones, attention to min(i, k) of them") {
    const std::string latent =
        "latent: {query_rank: 32, kv_rank: 16, nope_size: 8, rope_size: 4, value_size: 8, "
        "absorbed: "
        "true}";
    const Network network = one_layer("attention: {heads: 4, positions: rotary, " + latent +
                                      ", index: {heads: 2, size: 8, keys: 512}}\n");
    const double visible = kTokens * (kTokens + 1) / 2;
    const double chosen = 512.0 * 513 / 2 + (kTokens - 512) * 512;
    CHECK(flops(network, "index") == doctest::Approx(2.0 * 2 * 8 * visible));
    // One key of 16 + 4 features for all heads, a value of 16.
    CHECK(flops(network, "attention") == doctest::Approx(2.0 * (20 + 16) * 4 * chosen));
    // The indexer: queries from their latent, a key, weights, a norm with bias; nothing is trained.
    const Operator& key = find(network, "index_key");
    CHECK_FALSE(trains_weight(network.blocks[1], key));
    CHECK_FALSE(needs_input_gradient(network.blocks[1], key));
    const Network dense = one_layer("attention: {heads: 4, positions: rotary, " + latent + "}\n");
    CHECK(block_parameter_count(network, network.blocks[1]) -
              block_parameter_count(dense, dense.blocks[1]) ==
          32 * 2 * 8 + 64 * 8 + 64 * 2 + 2 * 8);
    CHECK(test::broken_rules(network).empty());
  }

  TEST_CASE("absorbed queries: the same parameters as keys and values that are expanded") {
    const auto with = [](const char* more) {
      return one_layer(
          "attention: {heads: 4, positions: rotary, latent: {kv_rank: 16, nope_size: 8, "
          "rope_size: 4, value_size: 8" +
          std::string(more) + "}}\n");
    };
    CHECK(parameter_count(with("")) == parameter_count(with(", absorbed: true")));
  }

  TEST_CASE("pooled keys: windows that end before the query, at most so many") {
    CHECK(pooled_fraction(8, 2, 4, 2) * 16 == 0.0 * 4 + 1.0 * 4);  // queries 4 to 7 see one
    CHECK(pooled_fraction(12, 3, 4, 1) * 36 == 4.0 + 4.0);         // the choice is of one
    CHECK(pooled_fraction(12, 3, 4, 3) * 36 == 4.0 + 8.0);
  }

  TEST_CASE("streams: a product of all of them around each sublayer") {
    const Network one = one_layer(kPlain);
    const Network four = one_layer(kPlain + "streams: 4\n");
    // (2 + 4) x 4 weights of 4 x 64 features, biases and three scales.
    CHECK(block_parameter_count(four, four.blocks[1]) - block_parameter_count(one, one.blocks[1]) ==
          24 * 4 * 64 + 24 + 3);
    const Block& block = four.blocks[1];
    CHECK(element_count(four, block.tensor(block.inputs.front()).dims) == kTokens * 4 * 64);
    CHECK(test::broken_rules(four).empty());
  }
}

}  // namespace plansearch::recurrence_test
