// SPDX-License-Identifier: Apache-2.0
// Hugging Face configurations: exact counts from files, and refusals that say what is supported.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>

#include "io/model/model_reader.hpp"
#include "plansearch/transformer_builder.hpp"
#include "support/broken_rules.hpp"
#include "support/source_directory.hpp"

namespace plansearch::hf_config_test {

namespace {

const std::filesystem::path kFamilies = PLANSEARCH_SOURCE_DIR "/models/families";

io::ModelFile read_config(const std::string& name) {
  return io::read_model(
      std::filesystem::path(PLANSEARCH_SOURCE_DIR "/tests/data/hf") / (name + ".json"), kFamilies);
}

io::ModelFile parse(const std::string& text) {
  return io::read_model(io::Document::parse(text, "config.json", io::Syntax::Json), "config",
                        kFamilies);
}

InputError error_of(const std::string& text) {
  try {
    static_cast<void>(parse(text));
  } catch (const InputError& error) {
    return error;
  }
  FAIL("no error");
  return InputError({}, "");
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("Qwen 3 MoE without a head size: hidden over heads, as transformers takes it") {
    const auto model = parse(
        "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 2048, \"num_attention_heads\": 32, "
        "\"num_key_value_heads\": 4, \"num_hidden_layers\": 2, \"intermediate_size\": 6144, "
        "\"moe_intermediate_size\": 768, \"num_experts\": 8, \"num_experts_per_tok\": 2, "
        "\"vocab_size\": 1000, \"max_position_embeddings\": 4096, \"hidden_act\": \"silu\"}");
    CHECK(model.model.attention.head_size == 64);  // 2048 / 32
  }

  TEST_CASE("families that are not read say why") {
    for (const char* family : {"albert", "deberta-v2", "helium", "qwen2_5_vl"}) {
      const InputError error = error_of(std::string("{\"model_type\": \"") + family + "\"}");
      CAPTURE(family);
      CHECK(std::string(error.what()).find("is not supported: ") != std::string::npos);
    }
  }

  TEST_CASE("configurations of every family have the published number of parameters") {
    const std::map<std::string, std::int64_t> published = {
        {"gpt2-xl", 1557611200},
        {"llama-2-7b", 6738415616},
        {"llama-2-13b", 13016028160},  // this file has a vocabulary of 32016
        {"llama-2-70b", 68976648192},
        {"llama-3-8b", 8030261248},
        {"llama-3-70b", 70553706496},
        {"llama-3.1-405b", 405853388800},
        {"mistral-7b-v0.2", 7241732096},
        {"mixtral-8x7b", 46702792704},
        {"mixtral-8x22b", 140620634112},
        {"qwen1.5-14b", 14167290880},
        {"qwen2-7b", 7615616512},
        {"qwen2.5-72b", 72706203648},
        {"qwen3-0.6b", 596049920},
        {"qwen3-8b", 8190735360},
        {"qwen3-32b", 32762123264},
        {"qwen3-30b-a3b", 30532122624},
        {"qwen3-235b-a22b", 235093634560},
        {"qwen3-vl-8b", 8190735360},  // its language part is Qwen3 8B
        {"gpt-oss-20b", 20914757184},
        {"gpt-oss-120b", 116829156672},
        {"deepseek-v2-lite", 15706484224},
        {"deepseek-v3", 671026419200},  // with router-correction biases, without MTP
        {"kimi-k2-instruct", 1026408232448},
        {"opt-30b", 29974540288},
        {"gpt-neox-20b", 20554567680},
        {"pythia-70m", 70426624},
        {"bloom-176b", 176247271424},
        {"falcon-7b", 6921720704},
        {"falcon-40b", 41303293952},
        {"phi-2", 2779683840},
        {"gemma-2b", 2506172416},
        {"gemma-7b", 8537680896},
        {"gemma-2-9b", 9241705984},
        {"bert-base-uncased", 109482240},
        {"vit-base-patch16-224", 86567656},
        {"t5-v1_1-xxl", 11135332352},
        {"mt5-xxl", 12921057280},
        {"mbart-large-50", 610879488},
    };
    for (const auto& [name, count] : published) {
      const std::string shown = name;
      CAPTURE(shown);
      const io::ModelFile file = read_config(name);
      CHECK(file.format == io::ModelFormat::HuggingFace);
      CHECK(file.model.name == name);
      const Network network = build_network(file.model);
      CHECK(parameter_count(network) == count);
      CHECK(test::broken_rules(network).empty());
    }
  }

  TEST_CASE("an imported configuration equals the shipped model but for what it cannot say") {
    const std::map<std::string, std::string> same = {{"gpt2-xl", "gpt2-xl"},
                                                     {"llama-3.1-405b", "llama3.1-405b"},
                                                     {"deepseek-v3", "deepseek-v3"},
                                                     {"gpt-oss-120b", "gpt-oss-120b"},
                                                     {"falcon-40b", "falcon-40b"},
                                                     {"mixtral-8x7b", "mixtral-8x7b"},
                                                     {"gemma-2-9b", "gemma2-9b"},
                                                     {"qwen3-235b-a22b", "qwen3-235b-a22b"},
                                                     {"phi-2", "phi-2"},
                                                     {"bloom-176b", "bloom-176b"}};
    for (const auto& [config, shipped] : same) {
      const std::string shown = config;
      CAPTURE(shown);
      const auto imported = read_config(config);
      const auto own = io::read_model(std::filesystem::path(PLANSEARCH_SOURCE_DIR "/models") /
                                      (shipped + ".yaml"));
      Network a = build_network(imported.model, {.seq_len = 2048});
      const Network b = build_network(own.model, {.seq_len = 2048});
      a.name = b.name;
      CHECK(a == b);
    }
  }

  TEST_CASE("the type of a checkpoint is not the training precision, and training is assumed") {
    // All three files say float16.
    for (const char* name : {"llama-2-7b", "qwen1.5-14b", "phi-2"}) {
      const io::ModelFile file = read_config(name);
      CHECK_FALSE(file.model.training.precision.has_value());
      CHECK(file.model.training.assumed);
    }
    CHECK(read_config("llama-3.1-405b").model.training.seq_len == 4096);
  }

  TEST_CASE("an unknown family names the nearest and the page of all") {
    const InputError error = error_of("{\n  \"model_type\": \"nemotron_z\"\n}");
    CHECK(std::string(error.what()).find("'nemotron_z' is not supported") != std::string::npos);
    CHECK(error.hint().find("did you mean nemotron") != std::string::npos);
    CHECK(error.hint().find("docs/models.md") != std::string::npos);
    CHECK(error.where() == SourceLocation{"config.json", 2, 17});
  }

  TEST_CASE("a missing key is named with its other spellings") {
    const InputError error =
        error_of("{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"vocab_size\": 100}");
    CHECK(std::string(error.what()) ==
          "key 'hidden_size' is missing; a llama configuration needs it");
    CHECK(error.hint().find("n_embd") != std::string::npos);
  }

  TEST_CASE("Infinity, as Python writes it, does not hide the family") {
    const InputError error =
        error_of("{\"time_step_limit\": [0.0, Infinity],\n \"model_type\": \"zamba2\"}");
    CHECK(error.where() == SourceLocation{"config.json", 2, 16});
    CHECK(std::string(error.what()).find("shared by several layers") != std::string::npos);
  }

  TEST_CASE("sizes that contradict each other are refused") {
    const InputError error = error_of(
        "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"vocab_size\": 100,"
        "\"hidden_size\": 64, \"intermediate_size\": 96, \"num_attention_heads\": 8,"
        "\"num_key_value_heads\": 3}");
    CHECK(std::string(error.what()).find("heads 8 is not a multiple of kv_heads 3") !=
          std::string::npos);
  }

  TEST_CASE("OPT-350m: post-norm, narrow embedding, no final norm") {
    const io::ModelFile file = parse(
        "{\"model_type\": \"opt\", \"num_hidden_layers\": 24, \"vocab_size\": 50272,"
        "\"hidden_size\": 1024, \"ffn_dim\": 4096, \"num_attention_heads\": 16,"
        "\"max_position_embeddings\": 2048, \"word_embed_proj_dim\": 512,"
        "\"do_layer_norm_before\": false}");
    CHECK(parameter_count(build_network(file.model)) == 331196416);
  }
}

}  // namespace plansearch::hf_config_test
