// SPDX-License-Identifier: Apache-2.0
#include "cost/kernels/kernel_shape.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "plansearch/transformer_builder.hpp"

namespace plansearch::kernel_shape_test {
namespace {

/// 16 query heads of 64 features, 4 key heads, hidden 1024, gated MLP of 4096, 512 tokens.
Network small_network(AttentionKind attention) {
  ModelDescription model;
  model.name = "small";
  model.layers = 2;
  model.hidden = 1024;
  model.attention.heads = 16;
  model.attention.kv_heads = 4;
  model.attention.head_size = 64;
  model.mlp = {4096, Activation::Silu, true, false};
  model.embedding.vocab = 32000;
  model.training.seq_len = 512;
  NetworkOptions options;
  options.attention = attention;
  return build_network(model, options);
}

struct Found {
  const Block* block = nullptr;
  const Operator* op = nullptr;
};

Found find(const Network& network, const std::string& name) {
  for (const Block& block : network.blocks) {
    for (const Operator& op : block.operators) {
      if (op.name == name) return {&block, &op};
    }
  }
  return {};
}

std::vector<double> extents(const Network& network) {
  std::vector<double> values;
  for (const Dimension& dimension : network.dimensions) {
    values.push_back(static_cast<double>(dimension.extent));
  }
  return values;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("matmul shapes are read off the loop nest") {
    const Network network = small_network(AttentionKind::Unfused);
    const auto values = extents(network);
    const auto shape = [&](const std::string& name) {
      const Found found = find(network, name);
      REQUIRE(found.op != nullptr);
      return matmul_shape(network, *found.block, *found.op, values);
    };
    CHECK(shape("query") == MatmulShape{1, 512, 1024, 1024});
    CHECK(shape("key") == MatmulShape{1, 512, 256, 1024});
    CHECK(shape("projection") == MatmulShape{1, 512, 1024, 1024});
    CHECK(shape("mlp_in") == MatmulShape{1, 512, 8192, 1024});
    CHECK(shape("mlp_out") == MatmulShape{1, 512, 1024, 4096});
    // One product per head: 512 queries x 512 keys over 64 features, and back.
    CHECK(shape("scores") == MatmulShape{16, 512, 512, 64});
    CHECK(shape("context") == MatmulShape{16, 512, 64, 512});
  }

  TEST_CASE("products of two activations whose reads are written out") {
    // Sides of triangles, summed over the third corner: [i, k, c] x [j, k, c] -> [i, j, c].
    Network network;
    network.dimensions = {{"i", DimRole::Sequence, 5},
                          {"j", DimRole::Other, 7},
                          {"k", DimRole::KeySequence, 11},
                          {"c", DimRole::Ffn, 13}};
    const auto [i, j, k, c] = std::tuple{DimId{0}, DimId{1}, DimId{2}, DimId{3}};
    Block block;
    block.tensors = {{"a", {i, j, c}}, {"b", {i, j, c}}, {"sum", {i, j, c}}};
    Operator op;
    op.kind = OperatorKind::BatchedMatmul;
    op.loop = {i, j, k, c};
    op.inputs = {TensorId{0}, TensorId{1}};
    op.outputs = {TensorId{2}};
    const auto read = [](std::vector<DimId> dims) {
      std::vector<IndexExpression> indices;
      for (const DimId dim : dims) indices.push_back({{{dim, 1}}, 0, 1});
      return indices;
    };
    op.reads = {read({i, k, c}), read({j, k, c})};
    const MatmulShape shape = matmul_shape(network, block, op, extents(network));
    CHECK(shape.batch == 13);
    CHECK(shape.m == 5);
    CHECK(shape.n == 7);
    CHECK(shape.k == 11);
  }

  TEST_CASE("attention shapes") {
    const Network network = small_network(AttentionKind::Fused);
    const Found found = find(network, "attention");
    REQUIRE(found.op != nullptr);
    const AttentionShape shape = attention_shape(network, *found.op, extents(network));
    CHECK(shape.heads == 16);
    CHECK(shape.queries == 512);
    CHECK(shape.keys == 512);
    CHECK(shape.key_size == 64);
    CHECK(shape.value_size == 64);
    CHECK(shape.useful_fraction == doctest::Approx(513.0 / 1024.0));
  }
}

}  // namespace plansearch::kernel_shape_test
