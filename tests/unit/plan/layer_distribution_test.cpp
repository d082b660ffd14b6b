// SPDX-License-Identifier: Apache-2.0
#include "plan/stages/layer_distribution.hpp"

#include <doctest/doctest.h>

#include "plansearch/transformer_builder.hpp"

namespace plansearch::layer_distribution_test {
namespace {

Network network_of(std::int64_t layers, std::int64_t hidden, std::int64_t vocab,
                   std::int64_t predictions = 0) {
  ModelDescription model;
  model.name = "small";
  model.layers = layers;
  model.hidden = hidden;
  model.attention.heads = 8;
  model.attention.kv_heads = 8;
  model.attention.head_size = hidden / 8;
  model.mlp = {4 * hidden, Activation::Silu, true, false};
  model.embedding.vocab = vocab;
  model.training.seq_len = 128;
  model.mtp_layers = predictions;
  return build_network(model);
}

/// Layers on each virtual stage.
std::vector<std::int64_t> layers_of(const Network& network, int stages, LayerDistribution rule,
                                    int chunks = 1, OwnLayers own = OwnLayers::None) {
  Framework framework;
  framework.own_layers = own;
  framework.layers = rule;
  PlanDegrees plan;
  plan.pipeline = stages;
  plan.chunks = chunks;
  const auto placed = distribute_layers(network, plan, framework);
  if (!std::holds_alternative<StageRuns>(placed)) return {};
  std::vector<std::int64_t> layers;
  for (const auto& stage : std::get<StageRuns>(placed)) {
    layers.push_back(0);
    for (const BlockRun& run : stage) {
      if (network.blocks[run.block].kind == BlockKind::Decoder) layers.back() += run.count;
    }
  }
  return layers;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("what does not divide goes to the first stages") {
    CHECK(layers_of(network_of(12, 64, 256), 4, LayerDistribution::EvenCeil) ==
          std::vector<std::int64_t>{3, 3, 3, 3});
    CHECK(layers_of(network_of(13, 64, 256), 4, LayerDistribution::EvenCeil) ==
          std::vector<std::int64_t>{4, 3, 3, 3});
  }

  TEST_CASE("embedding and loss count as a layer when that makes stages even") {
    CHECK(layers_of(network_of(14, 64, 256), 4, LayerDistribution::EvenCeil) ==
          std::vector<std::int64_t>{3, 4, 4, 3});
    // 126 layers on 16 stages of 8 chunks: the first holds the embedding, the last the loss.
    const Network network = network_of(14, 64, 256);
    CHECK(layers_of(network, 4, LayerDistribution::EvenCeil, 4) ==
          std::vector<std::int64_t>{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0});
    CHECK(layers_of(network_of(13, 64, 256), 4, LayerDistribution::EvenCeil, 4).empty());
  }

  TEST_CASE(
      "where the ends have counts of their own the last stage has fewer layers if that helps") {
    using Layers = std::vector<std::int64_t>;
    const auto rest = [](const Network& network, int stages, int chunks = 1) {
      return layers_of(network, stages, LayerDistribution::EvenCeil, chunks, OwnLayers::Ends);
    };
    // 61 layers and a prediction module on 16 stages: 4 x 15, 1, as Megatron-Bridge lays out
    // DeepSeek-V3.
    Layers bridge(15, 4);
    bridge.push_back(1);
    CHECK(rest(network_of(61, 64, 256, 1), 16) == bridge);
    // A head of one layer: 33 of them on the second device of two, in front of it 31; or 32 each.
    CHECK(rest(network_of(61, 64, 16 * 64, 1), 2, 8) == bridge);
    CHECK(layers_of(network_of(61, 64, 256, 1), 16, LayerDistribution::EvenCeil).back() == 3);
    // 36 layers of which nothing stands behind, on 2 devices of 4 chunks: 5 x 7, 1 would give one
    // device 20 layers.
    CHECK(rest(network_of(36, 64, 256), 2, 4) == Layers{5, 5, 5, 5, 4, 4, 4, 4});
    CHECK(rest(network_of(13, 64, 256), 4) == Layers{4, 4, 4, 1});
    CHECK(rest(network_of(14, 64, 256), 4) == Layers{3, 4, 4, 3});
    CHECK(rest(network_of(9, 64, 256), 8) == Layers{2, 1, 1, 1, 1, 1, 1, 1});
  }

  TEST_CASE("stages without layers hold embedding and head") {
    const Network network = network_of(2, 64, 256);
    Framework framework;
    framework.layers = LayerDistribution::EvenCeil;
    PlanDegrees plan;
    plan.pipeline = 4;
    const auto placed = std::get<StageRuns>(distribute_layers(network, plan, framework));
    CHECK(network.blocks[placed.front().front().block].kind == BlockKind::Embedding);
    CHECK(network.blocks[placed.back().back().block].kind == BlockKind::Head);
  }

  TEST_CASE("a heavy head leaves the last stages to itself") {
    // A layer weighs 12 + 4 = 16 h^2, the head 256 h / h = 4 layers of it with vocab 64 h.
    const auto layers =
        layers_of(network_of(8, 64, 64 * 64), 8, LayerDistribution::EmbeddingAndHeadCount);
    REQUIRE(layers.size() == 8);
    CHECK(layers.back() == 0);
    std::int64_t total = 0;
    for (const std::int64_t count : layers) total += count;
    CHECK(total == 8);
  }

  TEST_CASE("a head beyond the share that layers have begun stands on the next stage") {
    // Eight layers and a head of four: 12 in all, 3 per stage: 3, 3, then 8 of 9 and the head,
    // which opens the last stage. A head of two: 10 in all, 2.5 per stage: 3 layers (3 of 2.5), 2
    // (5 of 5), 3 (8 of 7.5), and the head alone.
    const auto stages = [](std::int64_t vocab) {
      return layers_of(network_of(8, 64, vocab), 4, LayerDistribution::EmbeddingAndHeadCount);
    };
    CHECK(stages(64 * 64) == std::vector<std::int64_t>{3, 3, 2, 0});
    CHECK(stages(32 * 64) == std::vector<std::int64_t>{3, 2, 3, 0});
  }
}

}  // namespace plansearch::layer_distribution_test
