// SPDX-License-Identifier: Apache-2.0
// Networks whose layers differ one by one: counts of published configurations, the lists, refusals.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "io/model/model_reader.hpp"
#include "io/model/model_writer.hpp"
#include "io/tables/csv.hpp"
#include "plansearch/transformer_builder.hpp"
#include "support/broken_rules.hpp"
#include "support/messages.hpp"
#include "support/source_directory.hpp"

namespace plansearch::layer_list_test {
namespace {

using test::says;

namespace fs = std::filesystem;

const fs::path kData = PLANSEARCH_SOURCE_DIR "/tests/data/families";
const fs::path kFamilies = PLANSEARCH_SOURCE_DIR "/models/families";

/// A model of four layers with more sections.
std::string four_layers(const std::string& more) {
  return "schema: plansearch/model/v1\nname: four\nsource: \"a test\"\nlayers: 4\nhidden: 64\n"
         "attention: {heads: 4, kv_heads: 2, positions: rotary}\n"
         "mlp: {width: 96, activation: silu, gated: true}\nnorm: {kind: rmsnorm}\n"
         "embedding: {vocab: 100}\ntraining: {seq_len: 32, global_batch: 8}\n" +
         more;
}

ModelDescription read(const std::string& text) {
  return io::read_model(io::Document::parse(text, "m.yaml", io::Syntax::Yaml), "m", kFamilies)
      .model;
}

std::string error_of(const std::string& text) {
  return test::message_of([&] { return read(text); });
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("published configurations have their parameters and FLOPs") {
    const io::CsvTable table = io::CsvTable::read(kData / "listed.csv");
    REQUIRE(table.rows().size() == 10);
    for (const io::CsvRow& row : table.rows()) {
      const std::string name = table.text(row, "config");
      CAPTURE(name);
      const io::ModelFile file = io::read_model(kData / (name + ".json"), kFamilies);
      const Network network = build_network(file.model);
      for (const std::string& broken : test::broken_rules(network)) FAIL_CHECK(broken);
      CHECK(parameter_count(network) == table.integer(row, "parameters", 1));
      const auto giga = table.number(row, "forward_gflop_per_token", 1e-3);
      REQUIRE(giga.has_value());
      REQUIRE(file.model.training.seq_len == 4096);
      CHECK(model_forward_flops(network).value() / 4096 ==
            doctest::Approx(*giga * 1e9).epsilon(1e-3));
    }
  }

  TEST_CASE("at 131,072 tokens attention alone has grown, by the keys that a token sees") {
    constexpr double kShort = 4096, kLong = 131072;
    const auto all = [](double s) { return (s + 1) / 2; };
    // The first k tokens see fewer than k keys: k - k (k - 1) / (2 s) on average.
    const auto chosen = [](double s) { return 2048 - 2048 * 2047 / (2 * s); };
    struct Grown {
      const char* config;
      double each_key;     ///< FLOPs per token and visible key, over the layers
      double each_chosen;  ///< and per key that an indexer chooses
    };
    // 2 (d_qk + d_v) a head of attention, 2 d a head of an indexer. Selected keys are of the latent
    // and its positions, values of the latent: 576 + 512. Of GLM's 78 layers 21 have an indexer.
    const Grown rows[] = {{"nemotron-3-nano-30b-a3b", 6 * 32 * 2 * (128 + 128), 0},
                          {"nemotron-h-56b-base-8k", 10 * 64 * 2 * (128 + 128), 0},
                          {"qwen3.5-27b", 16 * 24 * 2 * (256 + 256), 0},
                          {"qwen3.5-397b-a17b", 15 * 32 * 2 * (256 + 256), 0},
                          {"glm-5.2", 21 * 32 * 2 * 128, 78 * 64 * 2 * (576 + 512)},
                          {"deepseek-v3.2", 61 * 64 * 2 * 128, 61 * 128 * 2 * (576 + 512)}};
    for (const Grown& row : rows) {
      CAPTURE(row.config);
      ModelDescription model =
          io::read_model(kData / (std::string(row.config) + ".json"), kFamilies).model;
      model.max_positions.reset();
      const auto forward = [&](double tokens) {
        NetworkOptions options;
        options.seq_len = static_cast<std::int64_t>(tokens);
        return model_forward_flops(build_network(model, options)).value() / tokens;
      };
      CHECK(forward(kLong) - forward(kShort) ==
            doctest::Approx(row.each_key * (all(kLong) - all(kShort)) +
                            row.each_chosen * (chosen(kLong) - chosen(kShort)))
                .epsilon(1e-6));
    }
  }

  TEST_CASE("a description that is written out is the same network") {
    for (const char* name : {"nemotron-3-nano-30b-a3b", "qwen3.5-27b", "glm-5.2", "deepseek-v4-pro",
                             "llama-3.3-nemotron-super-49b", "jamba-v0.1", "falcon-h1-0.5b"}) {
      CAPTURE(name);
      const ModelDescription model =
          io::read_model(kData / (std::string(name) + ".json"), kFamilies).model;
      CHECK(build_network(read(io::to_yaml(model))) == build_network(model));
    }
  }

  TEST_CASE("lists repeat, parts are overlays, equal parts are one block") {
    const Network plain = build_network(read(four_layers("")));
    CHECK(build_network(read(four_layers("layer_mixers: [attention]\n"))).order.size() ==
          plain.order.size());
    const ModelDescription model =
        read(four_layers("mixers: {wide: {heads: 8, head_size: 16, window: 8}}\n"
                         "layer_mixers: [attention, wide]\n"
                         "layer_feed_forwards: [mlp, {width: 32}, none, {width: 32}]\n"));
    const Network network = build_network(model);
    std::vector<std::string> names;
    for (const BlockRun& run : network.order) names.push_back(network.blocks[run.block].name);
    CHECK(names == std::vector<std::string>{"embedding", "decoder-attention-mlp",
                                            "decoder-wide-mlp1-window", "decoder-attention",
                                            "decoder-wide-mlp1-window", "head"});
    // Attention: 4 heads of 16 with 2 of keys and values, or 8 with 2; norms of 64.
    const double attention = 64 * (4 + 2 * 2) * 16 + 64 * 64 + 64;
    const double wide = 64 * (8 + 2 * 2) * 16 + 8 * 16 * 64 + 64;
    CHECK(block_parameter_count(network, network.blocks[1]) == attention + 3 * 64 * 96 + 64);
    CHECK(block_parameter_count(network, network.blocks[2]) == wide + 3 * 64 * 32 + 64);
    CHECK(block_parameter_count(network, network.blocks[3]) == attention);
  }

  TEST_CASE("mixers that read one norm add up") {
    const std::string both =
        "mixers: {state: {form: mamba2, heads: 8, key_heads: 2, key_size: 16, value_size: 16, "
        "taps: 4}}\nlayer_mixers: [attention+state]\n";
    const Network network = build_network(read(four_layers(both)));
    std::vector<std::string> names;
    for (const Operator& op : network.blocks[1].operators) names.push_back(op.name);
    CHECK(std::count(names.begin(), names.end(), "norm1") == 1);
    CHECK(std::count(names.begin(), names.end(), "mixer_sum") == 1);
    CHECK(test::broken_rules(network).empty());
  }

  TEST_CASE("prediction modules have the layers that are listed") {
    const std::string listed =
        "mtp_layers: 1\nprediction_mixers: [attention, none]\n"
        "prediction_feed_forwards: [none, mlp]\n";
    // The same network as one layer with both.
    CHECK(parameter_count(build_network(read(four_layers(listed)))) ==
          parameter_count(build_network(read(four_layers("mtp_layers: 1\n")))));
    CHECK(says(error_of(four_layers("prediction_mixers: [attention]\n")), "are not as many"));
  }

  TEST_CASE("faults name the part and what there is") {
    CHECK(says(error_of(four_layers("layer_mixers: [atention]\n")),
               "layer_mixers[0]: there is no part 'atention'"));
    CHECK(says(error_of(four_layers("layer_feed_forwards: [experts]\n")), "known: mlp, none"));
    CHECK(says(error_of(four_layers("mixers: {a: {form: mamba9, heads: 2, value_size: 2}}\n")),
               "there is no recurrence 'mamba9'"));
    CHECK(says(error_of(four_layers("mixers: {A-b: {heads: 2}}\n")), "is not a name of a part"));
    CHECK(says(error_of(four_layers("mixers: {a: {form: mamba2, heads: 3, key_heads: 2, "
                                    "value_size: 2}}\n")),
               "heads 3 is not a multiple of key_heads 2"));
  }

  TEST_CASE("experts in a latent: messages and products by its width") {
    const std::string experts = "experts: {count: 8, top_k: 2, width: 32";
    const Network wide = build_network(read(four_layers(experts + "}\n")));
    const Network narrow = build_network(read(four_layers(experts + ", latent: 16}\n")));
    const auto sent = [](const Network& network) {
      for (const Operator& op : network.blocks[1].operators) {
        if (op.name == "dispatch")
          return element_count(network, network.blocks[1].tensor(op.outputs.front()).dims);
      }
      return 0.0;
    };
    CHECK(sent(narrow) * 4 == sent(wide));  // 16 of 64 features
    // Two products between stream and latent, three of each expert by its width.
    CHECK(block_parameter_count(wide, wide.blocks[1]) -
              block_parameter_count(narrow, narrow.blocks[1]) ==
          8 * 3 * 32 * (64 - 16) - 2 * 64 * 16);
  }
}

}  // namespace plansearch::layer_list_test
