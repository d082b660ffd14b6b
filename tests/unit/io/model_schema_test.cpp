// SPDX-License-Identifier: Apache-2.0
// docs/schema/model.v1.schema.json accepts what the reader accepts and refuses what it refuses.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/model/model_reader.hpp"
#include "io/model/model_writer.hpp"
#include "plansearch/transformer_builder.hpp"
#include "support/json_schema.hpp"
#include "support/source_directory.hpp"

namespace plansearch::model_schema_test {

namespace {

const std::string kEverything = R"(schema: plansearch/model/v1
name: everything
aliases: [all]
source: "a test"
stack: decoder
layers: 2
hidden: 64
max_positions: 64
mtp_layers: 0
attention: {heads: 4, kv_heads: 2, head_size: 16, bias: qkv, positions: relative,
            relative_buckets: 8, fused_projection: false, repeats_heads: false, qk_norm: per-head, sinks: true, window: 16,
            full_attention_every: 2, window_kind: sliding, leading_full: 0, layer_pattern: [window, full],
            value_size: 8, query_rank: 8, output_groups: 2, output_rank: 4, value_is_key: false, gate: none,
            index: {heads: 2, size: 4, keys: 8}, pool: {ratio: 4}}
mlp: {width: 128, activation: silu, gated: true, bias: false}
norm: {kind: rmsnorm, placement: sandwich, final: true, first: true}
embedding: {vocab: 100, tied: true, width: 32, position_rows: 10, token_types: 2, norm: true,
            head_bias: false, pooler: false, head_transform: none,
            predicted: 0.15}
dropout: {residual: 0.1, attention: 0.1}
experts: {count: 4, top_k: 2, width: 32, shared_width: 32, shared_gate: true, router_bias: true,
          correction_bias: true, fp32_router: true, bias: true, leading_dense: 1, every: 1, dense_layers: [1], layers: [1], capacity_factor: 1.5, groups: 2, top_groups: 1,
          latent: 16, idle: 2, imbalance: 1.1}
training: {seq_len: 32, global_batch: 8, precision: bf16, optimizer: adafactor, frozen: ["*/mlp_in.*"],
           lora: {rank: 4, targets: [all-linear]}}
)";

io::Document document(const std::string& text) {
  return io::Document::parse(text, "m.yaml", io::Syntax::Yaml);
}

bool reads(const std::string& text) {
  try {
    static_cast<void>(io::read_model(document(text), "m"));
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the schema of model files accepts every shipped model") {
    const auto sizes = test::load_schema(PLANSEARCH_SOURCE_DIR "/docs/schema/model.v1.schema.json");
    const auto graph = test::load_schema(PLANSEARCH_SOURCE_DIR "/docs/schema/graph.v1.schema.json");
    const std::filesystem::path models(PLANSEARCH_SOURCE_DIR "/models");
    for (const auto& entry : std::filesystem::directory_iterator(models)) {
      if (entry.path().extension() != ".yaml") continue;
      const io::Document file = io::Document::read(entry.path());
      if (!file.root().find("schema")) continue;  // a configuration that ships: its family reads it
      const bool spelled_out = file.root().at("schema").text() == "plansearch/graph/v1";
      const auto violations = test::schema_violations(spelled_out ? graph : sizes, file.root());
      for (const std::string& violation : violations) {
        FAIL_CHECK(entry.path().string() << ": " << violation);
      }
      // What we write ourselves, too.
      const ModelDescription model = io::read_model(entry.path()).model;
      const std::string written = io::write_graph(model, build_network(model));
      for (const std::string& violation :
           test::schema_violations(graph, document(written).root())) {
        FAIL_CHECK(entry.path().string() << " as a graph: " << violation);
      }
    }
  }

  TEST_CASE("schema and reader know the same keys") {
    const auto schema =
        test::load_schema(PLANSEARCH_SOURCE_DIR "/docs/schema/model.v1.schema.json");
    CHECK(reads(kEverything));
    CHECK(test::schema_violations(schema, document(kEverything).root()).empty());
    // A key that only one of them knew would show as a difference here.
    for (const auto& [section, properties] : schema["properties"].items()) {
      if (properties.value("type", "") != "object") continue;
      const std::size_t at = kEverything.find("\n" + section + ": {");
      if (at == std::string::npos) continue;  // decoder and vision belong to other stacks
      for (const auto& [key, unused] : properties["properties"].items()) {
        if (key == "latent") continue;
        const std::string shown = section + "." + key;
        CAPTURE(shown);
        CHECK(kEverything.find(key + ": ", at) != std::string::npos);
      }
    }
  }

  TEST_CASE("schema and reader refuse the same mistakes") {
    const auto schema =
        test::load_schema(PLANSEARCH_SOURCE_DIR "/docs/schema/model.v1.schema.json");
    const std::vector<std::pair<std::string, std::string>> mistakes = {
        {"layers: 2", "layers: 0"},
        {"layers: 2", "layers: two"},
        {"heads: 4", "head: 4"},
        {"positions: relative", "positions: nowhere"},
        {"gated: true", "gated: maybe"},
        {"residual: 0.1", "residual: 1.0"},
        {"capacity_factor: 1.5", "capacity_factor: 0"},
        {"seq_len: 32", "seq_len: 0"},
        {"optimizer: adafactor", "optimizer: sophia"},
        {"plansearch/model/v1", "plansearch/model/v2"}};
    for (const auto& [from, to] : mistakes) {
      const std::string shown = to;
      CAPTURE(shown);
      std::string text = kEverything;
      text.replace(text.find(from), from.size(), to);
      CHECK_FALSE(reads(text));
      CHECK_FALSE(test::schema_violations(schema, document(text).root()).empty());
    }
  }
}

}  // namespace plansearch::model_schema_test
