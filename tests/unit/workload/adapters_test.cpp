// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters beside frozen products, counted by hand on two layers of width h = 64: 8 query
// heads and 2 key/value heads of 8, an MLP of f = 96, 128 words, 32 tokens, rank 4 on q and v.
#include <doctest/doctest.h>

#include "descriptions.hpp"
#include "support/broken_rules.hpp"
#include "workload/network_edges.hpp"

namespace plansearch::workload_adapters_test {
using test::block_named;

namespace {

constexpr double kTokens = 32, kHidden = 64, kKv = 16, kInner = 96, kWords = 128, kRank = 4;

ModelDescription adapted(std::vector<std::string> targets = {"q", "v"}) {
  ModelDescription model = test::llama(2, 64, 8, 2, 96, 128);
  model.training.lora = LoraDescription{4, std::move(targets)};
  return model;
}

Network network_of(const ModelDescription& model) {
  return build_network(model, {.seq_len = 32});
}

/// Bytes that a block keeps of one token; every activation takes 2.
double kept_per_token(const Network& network, const Block& block) {
  double bytes = 0.0;
  for (const Operator& op : block.operators) {
    for (const Saved& saved : op.saved) {
      const Tensor& tensor = block.tensor(saved.tensor);
      const double size = tensor.element == ElementClass::Statistic ? 4.0 : 2.0;
      bytes += size * element_count(network, tensor.dims) / kTokens;
    }
  }
  return bytes;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("adapters add in x rank and rank x out, and only they are trained") {
    const Network network = network_of(adapted());
    CHECK(test::broken_rules(network).empty());
    // Two layers: q has 64 inputs and outputs, v 64 and 16.
    CHECK(trainable_parameter_count(network) == 2 * 4 * ((64 + 64) + (64 + 16)));
    const std::int64_t base = parameter_count(network_of(test::llama(2, 64, 8, 2, 96, 128)));
    CHECK(parameter_count(network) == base + trainable_parameter_count(network));
    // gate and up are modules of their own, each with both halves of an adapter.
    CHECK(trainable_parameter_count(network_of(adapted({"gate", "up"}))) == 2 * 4 * 2 * (64 + 96));
    const std::int64_t everything = 2 * 4 * (2 * (64 + 64) + 2 * (64 + 16) + 3 * (64 + 96));
    CHECK(trainable_parameter_count(network_of(adapted({kAllLinear}))) == everything);
  }

  TEST_CASE(
      "adapters multiply in the activation format, and no product of a network trained whole") {
    const auto wide = [](const Network& network) {
      std::vector<std::string> names;
      for (const Block& block : network.blocks) {
        if (block.kind != BlockKind::Decoder) continue;
        for (const Operator& op : block.operators) {
          if (multiplies_wide(network, block, op)) names.push_back(op.name);
        }
      }
      return names;
    };
    const std::vector<std::string> both{"q.lora_a", "q.lora_b", "v.lora_a", "v.lora_b"};
    std::vector<std::string> twice = both;  // the lowest layer is a block of its own
    twice.insert(twice.end(), both.begin(), both.end());
    CHECK(wide(network_of(adapted())) == twice);
    CHECK(wide(network_of(test::llama(2, 64, 8, 2, 96, 128))).empty());
    // Latent attention is no adapter, and a router that is frozen makes it none.
    ModelDescription latent = test::llama(2, 64, 8, 8, 96, 128);
    latent.attention.latent = LatentAttention{};
    latent.attention.latent->kv_rank = 16;
    latent.attention.latent->nope_size = latent.attention.latent->value_size = 8;
    latent.attention.latent->rope_size = 4;
    latent.moe = MoeDescription{};
    latent.moe->experts = 4;
    latent.moe->top_k = 2;
    latent.moe->expert_width = 32;
    latent.training.frozen = {"*router*"};
    CHECK(wide(network_of(latent)) == std::vector<std::string>{"router", "route"});
  }

  TEST_CASE("tables of the vocabulary are trained whole where they are named") {
    const std::int64_t adapters = trainable_parameter_count(network_of(adapted()));
    CHECK(trainable_parameter_count(network_of(adapted({"q", "v", "head"}))) ==
          adapters + 128 * 64);
    CHECK(trainable_parameter_count(network_of(adapted({"q", "v", "embedding", "head"}))) ==
          adapters + 2 * 128 * 64);
    ModelDescription tied = adapted({"q", "v", "head"});
    tied.embedding.tied = true;
    CHECK(trainable_parameter_count(network_of(tied)) == adapters + 128 * 64);
    const auto alone = adapter_problem(adapted({"head"}));
    REQUIRE(alone);
    CHECK(alone->what == "no target has an adapter");
  }

  TEST_CASE("a fused projection has one adapter whose first half all three products share") {
    ModelDescription model = test::gpt(2, 64, 4, 128, 32);
    model.attention.fused_projection = true;
    model.training.lora = LoraDescription{4, {"qkv"}};
    const Network network = build_network(model);
    CHECK(test::broken_rules(network).empty());
    CHECK(trainable_parameter_count(network) == 2 * 4 * (64 + 3 * 64));
    CHECK(adapter_targets(model) == std::vector<std::string>{"qkv", "o", "up", "down"});
  }

  TEST_CASE("training FLOPs leave out the weight gradients of frozen products") {
    const Network network = network_of(adapted());
    const double in = 2 * kHidden * (kHidden + 2 * kKv);  // q, k and v
    const double rest = 2 * (kHidden * kHidden + kHidden * 2 * kInner + kInner * kHidden);
    const double first_halves = 2 * (2 * kHidden * kRank);
    const double second_halves = 2 * kRank * (kHidden + kKv);
    const double logits = 2 * kHidden * kWords;
    // A causal query sees 16.5 of 32 keys: scores and values, 2 FLOPs a feature each.
    const double attention = 2 * 2 * kHidden * 16.5;
    // Lowest layer: nothing below is trained, so q, k, v and the first halves form no input
    // gradient. Above it every frozen product forms that alone, adapters form both.
    const double lowest = in + 2 * rest + 2 * first_halves + 3 * second_halves + 3 * attention;
    const double above = 2 * in + 2 * rest + 3 * first_halves + 3 * second_halves + 3 * attention;
    CHECK(model_training_flops(network).value() ==
          doctest::Approx(kTokens * (lowest + above + 2 * logits)).epsilon(1e-12));
    const Network whole = network_of(test::llama(2, 64, 8, 2, 96, 128));
    CHECK(model_training_flops(whole).value() ==
          doctest::Approx(3.0 * model_forward_flops(whole).value()).epsilon(1e-12));
  }

  TEST_CASE("frozen products keep no input; what attention and norms need stays") {
    const Network network = network_of(adapted());
    REQUIRE(network.order.size() == 4);  // embedding, the lowest layer, the other, head
    // Both norm inputs and statistics, the input that the adapters share, their low-rank results,
    // rotated query and key, value, context and its statistic, gate and value.
    const double above = 2 * (2 * kHidden + kHidden + 2 * kRank + 2 * kHidden + 2 * kKv) +
                         2 * 2 * kInner + 2 * 4 + 4 * 8;
    CHECK(kept_per_token(network, block_named(network, "decoder")) == above);
    CHECK(kept_per_token(network, block_named(network, "decoder-first")) ==
          above - (2 * kHidden + 4));
    CHECK(kept_per_token(network, block_named(network, "embedding")) == 0.0);
  }

  TEST_CASE("a frozen embedding stops the gradient in front of the first layer") {
    ModelDescription model = test::llama(2, 64, 8, 2, 96, 128);
    model.training.frozen = {"embedding/*", "decoder/norm1.*"};
    const Network network = network_of(model);
    const Network whole = network_of(test::llama(2, 64, 8, 2, 96, 128));
    // q, k and v of the first layer form no input gradient; the norm above them would need it.
    CHECK((model_training_flops(whole) - model_training_flops(network)).value() ==
          doctest::Approx(kTokens * 2 * kHidden * (kHidden + 2 * kKv)));
  }

  TEST_CASE("patterns that match nothing are found") {
    const Network network = network_of(test::llama(2, 64, 8, 2, 96, 128));
    CHECK(patterns_without_match(network, {"decoder/*", "decoder/mpl_in.weight"}) ==
          std::vector<std::string>{"decoder/mpl_in.weight"});
  }

  TEST_CASE("targets that a model has no module for are named with those it has") {
    ModelDescription model = adapted({"qkv"});
    const auto wrong = adapter_problem(model);
    REQUIRE(wrong.has_value());
    CHECK(wrong->what == "no module 'qkv'");
    CHECK(wrong->remedy ==
          "llama has q, k, v, o, gate, up, down; attention, mlp or all-linear for several; beside "
          "them embedding and head, trained whole");
    model.training.lora->targets = {"q"};
    model.training.lora->rank = 0;
    CHECK(adapter_problem(model).has_value());
  }
}

}  // namespace plansearch::workload_adapters_test
