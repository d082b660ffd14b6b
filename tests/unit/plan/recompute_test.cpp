// SPDX-License-Identifier: Apache-2.0
#include "plan/recompute.hpp"

#include <doctest/doctest.h>

namespace plansearch {
namespace {

Operator product(int products) {
  Operator op;
  op.kind = OperatorKind::Matmul;
  op.products = products;
  return op;
}

Operator attention() {
  Operator op;
  op.kind = OperatorKind::Attention;
  return op;
}

/// norm, query, key, value, fused attention, projection, norm, gate and up, gating, down.
Block llama_layer() {
  Block block;
  block.kind = BlockKind::Decoder;
  block.operators = {Operator{}, product(1), product(1), product(1), attention(),
                     product(1), Operator{}, product(2), Operator{}, product(1)};
  return block;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("recompute by operator keeps attention and every other product") {
    // Products in order: query 1, key 2, value 3, projection 4, gate 5, up 6, down 7; odd ones
    // stay.
    CHECK(repeated_shares(llama_layer(), Recompute::Selective, SelectiveRule::AlternateMatmuls) ==
          std::vector<double>{1, 0, 1, 0, 0, 1, 1, 0.5, 1, 0});
  }

  TEST_CASE("recompute of the attention core leaves fused attention alone") {
    CHECK(repeated_shares(llama_layer(), Recompute::Selective, SelectiveRule::AttentionCore) ==
          std::vector<double>(10, 0.0));
  }

  TEST_CASE("full recompute repeats layers, neither embedding nor head") {
    Block block = llama_layer();
    CHECK(repeated_shares(block, Recompute::Full, SelectiveRule::AttentionCore) ==
          std::vector<double>(10, 1.0));
    for (const BlockKind kind : {BlockKind::Embedding, BlockKind::Head}) {
      block.kind = kind;
      CHECK(repeated_shares(block, Recompute::Full, SelectiveRule::AlternateMatmuls) ==
            std::vector<double>(10, 0.0));
      CHECK(!repeats_whole(block, Recompute::Full));
    }
  }

  TEST_CASE("no recompute, nothing again") {
    CHECK(repeated_shares(llama_layer(), Recompute::None, SelectiveRule::AlternateMatmuls) ==
          std::vector<double>(10, 0.0));
  }
}

}  // namespace plansearch
