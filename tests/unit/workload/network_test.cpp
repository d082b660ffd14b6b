// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>

#include "descriptions.hpp"
#include "support/broken_rules.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch::network_test {
using test::block_named;

namespace {

/// Of the attention core where it is several kernels, or of all else.
enum class Part { Core, Rest };

double saved_bytes(const Network& network, const Block& block, Part part) {
  double bytes = 0.0;
  for (const Operator& op : block.operators) {
    const bool core = (op.modules & bit_of(LayerModule::CoreAttention)).any() &&
                      op.kind != OperatorKind::Attention;
    if (core != (part == Part::Core)) continue;
    for (const Saved& saved : op.saved) {
      const TensorId id = saved.tensor;
      const Tensor& tensor = block.tensor(id);
      const double size = tensor.element == ElementClass::Activation ? 2.0
                          : tensor.element == ElementClass::Mask     ? 1.0
                                                                     : 0.0;
      bytes += size * element_count(network, tensor.dims);
    }
  }
  return bytes;
}

/// Bytes of the saved tensors that carry none of the roles a tensor-parallel group shards.
double unsharded_bytes(const Network& network, const Block& block) {
  double bytes = 0.0;
  for (const Operator& op : block.operators) {
    for (const Saved& saved : op.saved) {
      const TensorId id = saved.tensor;
      const Tensor& tensor = block.tensor(id);
      bool sharded = tensor.element == ElementClass::Statistic;
      for (const DimId dim : tensor.dims) {
        const DimRole role = network.dimension(dim).role;
        if (role == DimRole::Head || role == DimRole::KvHead || role == DimRole::Ffn)
          sharded = true;
      }
      if (sharded) continue;
      bytes += element_count(network, tensor.dims) * (tensor.element == ElementClass::Mask ? 1 : 2);
    }
  }
  return bytes;
}

std::set<std::string> operator_names(const Block& block) {
  std::set<std::string> names;
  for (const Operator& op : block.operators) names.insert(op.name);
  return names;
}

std::vector<ModelDescription> zoo() {
  std::vector<ModelDescription> all;
  all.push_back(test::gpt(2, 64, 4, 128, 32));
  all.push_back(test::llama(2, 64, 8, 2, 96, 128));
  all.push_back(test::with_experts(test::llama(4, 64, 8, 2, 96, 128), 8, 2));
  all.back().moe->leading_dense = 1;
  all.back().moe->shared_width = 48;
  all.back().moe->shared_gate = true;
  all.back().mtp_layers = 1;
  all.push_back(test::llama(4, 64, 8, 8, 96, 128));
  all.back().attention.latent = LatentAttention{24, 16, 8, 4, 8};
  all.push_back(test::llama(4, 64, 8, 8, 96, 128));
  all.back().attention.window = 16;
  all.back().attention.full_attention_every = 2;
  all.back().attention.sinks = true;
  all.back().attention.qk_norm = QkNorm::PerHead;
  all.push_back(test::gpt(2, 64, 4, 128, 32));
  all.back().stack = StackKind::EncoderDecoder;
  all.back().decoder = DecoderDescription{3, 128, 16};
  all.push_back(test::gpt(2, 64, 4, 128, 32));
  all.back().stack = StackKind::Vision;
  all.back().vision = VisionDescription{32, 8, 3, 10};
  for (const NormPlacement placement : {NormPlacement::Post, NormPlacement::Sandwich,
                                        NormPlacement::Parallel, NormPlacement::ParallelTwo}) {
    all.push_back(test::gpt(2, 64, 4, 128, 32));
    all.back().norm.placement = placement;
  }
  return all;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("every network is well formed, fused or not") {
    for (const ModelDescription& model : zoo()) {
      for (const AttentionKind kind : {AttentionKind::Fused, AttentionKind::Unfused}) {
        const Network network = build_network(model, {.attention = kind});
        for (const std::string& rule : test::broken_rules(network)) FAIL_CHECK(rule);
        CHECK(parameter_count(network) > 0);
      }
    }
  }

  TEST_CASE("attention kind changes neither parameters nor model FLOPs") {
    for (const ModelDescription& model : zoo()) {
      const Network fused = build_network(model, {.attention = AttentionKind::Fused});
      const Network unfused = build_network(model, {.attention = AttentionKind::Unfused});
      CHECK(parameter_count(fused) == parameter_count(unfused));
      CHECK(model_forward_flops(fused).value() ==
            doctest::Approx(model_forward_flops(unfused).value()).epsilon(1e-12));
    }
  }

  TEST_CASE("a broken rule is found") {
    Network network = build_network(test::gpt(2, 64, 4, 128, 32));
    network.blocks[1].operators[1].inputs[0] = static_cast<TensorId>(10000);
    CHECK_FALSE(test::broken_rules(network).empty());
  }

  TEST_CASE("saved tensors of the unfused GPT block are sbh(34 + 5as/h)") {
    // Korthikanti et al. 2022 (arXiv:2205.05198), equation 1, without the row statistics.
    const double s = 2048;
    const double h = 12288;
    const double a = 96;
    const ModelDescription model = test::gpt(96, 12288, 96, 51200, 2048);
    const Network unfused = build_network(model, {.attention = AttentionKind::Unfused});
    const Block& block = block_named(unfused, "decoder");
    CHECK(saved_bytes(unfused, block, Part::Rest) == 34 * s * h);
    CHECK(saved_bytes(unfused, block, Part::Core) == 5 * a * s * s);
    // Equation 2: 10 of the 34 are not split by tensor parallelism.
    CHECK(unsharded_bytes(unfused, block) == 10 * s * h);

    const Network fused = build_network(model, {.attention = AttentionKind::Fused});
    const Block& flash = block_named(fused, "decoder");
    CHECK(saved_bytes(fused, flash, Part::Rest) == 34 * s * h);
    CHECK(saved_bytes(fused, flash, Part::Core) == 0.0);
  }

  TEST_CASE("saved tensors of the Llama block") {
    // norms and inputs 4 x 2 bytes, q and output, k and v, gate and up, their product.
    const Network network = build_network(test::llama(2, 64, 8, 2, 96, 128));
    const Block& block = block_named(network, "decoder");
    const double tokens = 4096;
    CHECK(saved_bytes(network, block, Part::Rest) ==
          tokens * 2 * (4 * 64 + 2 * 64 + 2 * 16 + 3 * 96));
  }

  TEST_CASE("saved tensors of the latent attention of DeepSeek") {
    ModelDescription model = test::llama(2, 64, 8, 8, 96, 128);
    model.attention.latent = LatentAttention{24, 16, 8, 4, 8};
    const Network network = build_network(model);
    const Block& block = block_named(network, "decoder");
    const double norms = 4 * 64;
    // Outputs of the up-projections are copied into q, k and v, rotated parts among them: only the
    // copies are kept.
    const double latents = 2 * 24 + 2 * 16;
    const double heads = 8 * (12 + 12 + 8 + 8);  // q, k, v and the input of the projection
    CHECK(saved_bytes(network, block, Part::Rest) == 4096 * 2 * (norms + latents + heads + 3 * 96));
  }

  TEST_CASE("query, key and value are one launch") {
    const Network network = build_network(test::llama(2, 64, 8, 2, 96, 128));
    int launches = 0;
    int members = 0;
    for (const Operator& op : block_named(network, "decoder").operators) {
      if (op.fused_key != "qkv") continue;
      ++members;
      launches += op.forward_kernels;
    }
    CHECK(members == 3);
    CHECK(launches == 1);
  }

  TEST_CASE("repeated layers are one block, different ones are runs") {
    const Network network = build_network(zoo()[2]);
    REQUIRE(network.order.size() == 5);
    CHECK(network.blocks[network.order[1].block].name == "decoder-dense");
    CHECK(network.order[1].count == 1);
    CHECK(network.blocks[network.order[2].block].name == "decoder-experts");
    CHECK(network.order[2].count == 3);
    CHECK(network.blocks[network.order[3].block].kind == BlockKind::Other);
    CHECK(layer_count(network) == 4);
  }

  TEST_CASE("a window shorter than the sequence alternates blocks, a longer one does not") {
    CHECK(build_network(zoo()[4]).order.size() == 6);
    CHECK(build_network(zoo()[4], {.seq_len = 16}).order.size() == 3);
  }

  TEST_CASE("frozen parameters lose their weight gradient and their saved input") {
    ModelDescription model = test::gpt(2, 64, 4, 128, 32);
    model.training.frozen = {"decoder/mlp_in.*", "decoder/query.*", "decoder/key.*",
                             "decoder/value.*"};
    const Network network = build_network(model);
    const Block& block = block_named(network, "decoder");
    for (const Operator& op : block.operators) {
      const bool frozen = op.name == "mlp_in" || op.fused_key == "qkv";
      if (traits(op).multiplies_weight()) {
        CHECK(op.backward_flops_factor == (frozen ? 1.0 : 2.0));
      }
    }
    const double lost = 2.0 * 2.0 * 32 * 64;  // the inputs of the two products
    CHECK(saved_bytes(network, block, Part::Rest) == 34.0 * 32 * 64 - lost);
  }

  TEST_CASE("dropout off removes the masks") {
    ModelDescription model = test::gpt(2, 64, 4, 128, 32);
    model.dropout = 0.0;
    model.attention_dropout = 0.0;
    const Network network = build_network(model, {.attention = AttentionKind::Unfused});
    const Block& block = block_named(network, "decoder");
    CHECK_FALSE(operator_names(block).contains("attention_dropout"));
    CHECK(saved_bytes(network, block, Part::Rest) == 32.0 * 32 * 64);
    CHECK(saved_bytes(network, block, Part::Core) == 2.0 * 4 * 32 * 32);
  }

  TEST_CASE("padding the vocabulary") {
    const ModelDescription model = test::gpt(2, 64, 4, 100, 32);
    CHECK(parameter_count(build_network(model, {.padded_vocab = 128})) -
              parameter_count(build_network(model)) ==
          28 * 64);
  }

  TEST_CASE("learned positions bound the sequence") {
    ModelDescription model = test::gpt(2, 64, 4, 128, 32);
    CHECK(longest_sequence(model) == 32);
    model.training.seq_len = 33;
    CHECK(contradictions(model) ==
          std::vector<std::string>{"seq_len 33 is beyond the 32 learned positions"});
    CHECK_FALSE(longest_sequence(test::llama(2, 64, 8, 2, 96, 128)).has_value());
  }

  TEST_CASE("contradictions are sentences") {
    ModelDescription model = test::llama(2, 64, 8, 3, 96, 128);
    model.layers = 0;
    const std::vector<std::string> found = contradictions(model);
    REQUIRE(found.size() == 2);
    CHECK(found[0] == "layers must be at least 1, not 0");
    CHECK(found[1] == "heads 8 is not a multiple of kv_heads 3");
  }
}

}  // namespace plansearch::network_test
