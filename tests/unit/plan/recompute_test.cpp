// SPDX-License-Identifier: Apache-2.0
#include "plan/primitives/recompute.hpp"

#include <doctest/doctest.h>

namespace plansearch::recompute_test {
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

  TEST_CASE("recompute of all but matmuls runs attention and memory-bound operators again") {
    CHECK(repeated_shares(llama_layer(), Recompute::Selective, SelectiveRule::AllButMatmuls) ==
          std::vector<double>{1, 0, 0, 0, 1, 0, 1, 0, 1, 0});
  }

  TEST_CASE("recompute of the attention core runs a fused kernel again, or leaves it alone") {
    CHECK(repeated_shares(llama_layer(), Recompute::Selective, SelectiveRule::UnfusedAttention) ==
          std::vector<double>(10, 0.0));
    CHECK(repeated_shares(llama_layer(), Recompute::Selective, SelectiveRule::AttentionCore) ==
          std::vector<double>{0, 0, 0, 0, 1, 0, 0, 0, 0, 0});
  }

  TEST_CASE("recompute of all but attention finds the result of the fused kernel") {
    CHECK(repeated_shares(llama_layer(), Recompute::Selective, SelectiveRule::AllButAttention) ==
          std::vector<double>{1, 1, 1, 1, 0, 1, 1, 1, 1, 1});
  }

  // query 1, router, expert products, down 2: the router's scores are not counted, nor are products
  // of experts, which are another kernel.
  TEST_CASE("policies by operator run routers again, and by PyTorch's products of experts too") {
    Block block;
    block.kind = BlockKind::Decoder;
    block.tensors.resize(2);
    block.tensors[1].element = ElementClass::Logit;
    Operator router = product(1);
    router.outputs = {TensorId{1}};
    Operator experts = product(1);
    experts.kind = OperatorKind::GroupedMatmul;
    block.operators = {product(1), router, experts, product(1)};
    CHECK(repeated_shares(block, Recompute::Selective, SelectiveRule::AlternateMatmuls) ==
          std::vector<double>{0, 1, 1, 1});
    CHECK(repeated_shares(block, Recompute::Selective, SelectiveRule::AllButMatmuls) ==
          std::vector<double>{0, 1, 0, 0});
  }

  TEST_CASE("what is exchanged is sent again where operators run again, unless it was kept") {
    CHECK(!sends_again(Recompute::None, SelectiveRule::AttentionCore));
    CHECK(sends_again(Recompute::Selective, SelectiveRule::AttentionCore));
    CHECK(!sends_again(Recompute::Selective, SelectiveRule::AlternateMatmuls));
    CHECK(sends_again(Recompute::Full, SelectiveRule::AlternateMatmuls));
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

  // A chunk of embedding, two dense and three expert layers, head: the first three layers are both
  // dense ones and one of the others.
  TEST_CASE("the first layers of a chunk, in their order") {
    Network network;
    network.blocks.resize(4);
    network.blocks[0].kind = BlockKind::Embedding;
    network.blocks[1].kind = network.blocks[2].kind = BlockKind::Decoder;
    network.blocks[3].kind = BlockKind::Head;
    const std::vector<BlockRun> chunk{{0, 1}, {1, 2}, {2, 3}, {3, 1}};
    CHECK(copies_among_first(network, chunk, 1, 3) == 2);
    CHECK(copies_among_first(network, chunk, 2, 3) == 1);
    CHECK(copies_among_first(network, chunk, 2, 9) == 3);
    CHECK(copies_among_first(network, chunk, 0, 9) == 0);
    std::int64_t again = 0, all = 0;
    for (const RecomputedRun& run : recomputed_runs(network, chunk, Recompute::Full, 3)) {
      all += run.run.count;
      if (run.level == Recompute::Full) again += run.run.count;
    }
    CHECK(all == 7);
    CHECK(again == 3);
    CHECK(recomputed_runs(network, chunk, Recompute::Full, 0).size() == 4);
  }

  TEST_CASE("no recompute, nothing again") {
    CHECK(repeated_shares(llama_layer(), Recompute::None, SelectiveRule::AlternateMatmuls) ==
          std::vector<double>(10, 0.0));
  }
}

}  // namespace plansearch::recompute_test
