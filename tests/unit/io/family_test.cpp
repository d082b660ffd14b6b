// SPDX-License-Identifier: Apache-2.0
// Families of Hugging Face configurations: counts of torch, rules of the format, refusals.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "io/model/family_file.hpp"
#include "io/model/model_reader.hpp"
#include "io/model/network_names.hpp"
#include "io/tables/csv.hpp"
#include "plansearch/transformer_builder.hpp"
#include "support/broken_rules.hpp"
#include "support/json_schema.hpp"
#include "support/messages.hpp"
#include "support/source_directory.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::family_test {
namespace fs = std::filesystem;

namespace {

using test::says;

const fs::path kFamilies = PLANSEARCH_SOURCE_DIR "/models/families";
const fs::path kData = PLANSEARCH_SOURCE_DIR "/tests/data";

fs::path config_file(const std::string& name) {
  const fs::path own = kData / "families" / (name + ".json");
  return fs::exists(own) ? own : kData / "hf" / (name + ".json");
}

io::ModelFile parse(const std::string& text, const fs::path& families = kFamilies) {
  return io::read_model(io::Document::parse(text, "config.json", io::Syntax::Json), "config",
                        families);
}

std::string message_of(const std::string& text, const fs::path& families = kFamilies) {
  return test::message_of([&] { return parse(text, families); });
}

/// A small Llama with more keys.
std::string llama(const std::string& more) {
  return "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"vocab_size\": 100, "
         "\"hidden_size\": 64, \"intermediate_size\": 96, \"num_attention_heads\": 8" +
         more + "}";
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("every recorded configuration has the parameters and FLOPs that torch counts") {
    // counts.csv is written by tools/witness/recount.py from transformers and torch alone.
    const io::CsvTable table = io::CsvTable::read(kData / "families/counts.csv");
    REQUIRE(table.rows().size() > 100);
    for (const io::CsvRow& row : table.rows()) {
      const std::string name = table.text(row, "config");
      CAPTURE(name);
      const io::ModelFile file = io::read_model(config_file(name), kFamilies);
      NetworkOptions options;
      options.seq_len = table.integer(row, "sequence", 1);
      options.decoder_seq_len = options.seq_len;
      const Network network = build_network(file.model, options);
      CHECK(test::broken_rules(network).empty());
      CHECK(parameter_count(network) == table.integer(row, "parameters", 1));
      // torch counts every product of the first layers; rounding of expert loads is left.
      if (const auto flops = table.number(row, "forward_flops", 1.0)) {
        const std::int64_t layers = *table.integer(row, "layers", 1);
        ModelDescription first = file.model;
        first.layers = std::min(first.layers, layers);
        if (first.decoder) first.decoder->layers = std::min(first.decoder->layers, layers);
        if (first.moe) std::erase_if(first.moe->dense_layers, [&](auto i) { return i >= layers; });
        CHECK(model_forward_flops(build_network(first, options)).value() ==
              doctest::Approx(*flops).epsilon(1e-4));
      }
    }
  }

  TEST_CASE("every family is counted, conforms to the schema and names its source") {
    const auto schema =
        test::load_schema(PLANSEARCH_SOURCE_DIR "/docs/schema/family.v1.schema.json");
    std::set<std::string> counted;
    for (const fs::path& folder : {kData / "families", kData / "hf"}) {
      for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() != ".json") continue;
        const io::Document document = io::Document::read(entry.path());
        const auto inner = document.root().find("text_config");
        const auto own = inner ? inner->find("model_type") : std::nullopt;
        const auto type = own ? own : document.root().find("model_type");
        counted.insert((type ? *type : document.root().at(io::kClassName)).text());
      }
    }
    const std::vector<std::string> families = io::known_families(kFamilies);
    CHECK(families.size() > 60);
    for (const std::string& family : families) {
      CAPTURE(family);
      CHECK(counted.contains(family));
      const io::Document document = io::Document::read(kFamilies / (family + ".yaml"));
      for (const std::string& violation : test::schema_violations(schema, document.root())) {
        FAIL_CHECK(violation);
      }
      CHECK(document.root().at("source").text().find("odel") != std::string::npos);
    }
  }

  TEST_CASE("a template is a graph file with the sizes and copies of a configuration") {
    const auto count = [](const io::ModelFile& file) {
      return parameter_count(build_network(file.model));
    };
    const auto flux = [](const std::string& more) {
      return "{\"_class_name\": \"FluxTransformer2DModel\", \"num_attention_heads\": 2, "
             "\"attention_head_dim\": 8, \"in_channels\": 4, \"joint_attention_dim\": 6, "
             "\"pooled_projection_dim\": 3, \"num_single_layers\": 1" +
             more + "}";
    };
    // By hand: 16 features; embeddings 80 + 112 + (4112 + 272) + (64 + 272), guidance 4384, a stream of a
    // double layer 1632 + 1088 + 16 + 1088 + 1040, a single one 816 + 1088 + 816 + 16 + 1296, the end 544 + 68.
    const io::ModelFile file = parse(flux(", \"num_layers\": 2"));
    CHECK(file.model.stack == StackKind::Graph);
    CHECK(file.model.layers == 3);
    CHECK(file.model.training.assumed);
    CHECK(count(file) == 4912 + 2 * 2 * 4864 + 4032 + 612);
    CHECK(test::broken_rules(build_network(file.model)).empty());
    CHECK(count(parse(flux(", \"num_layers\": 1, \"guidance_embeds\": true"))) ==
          4912 + 4384 + 2 * 4864 + 4032 + 612);
    CHECK(parse(flux(", \"num_layers\": 2, \"odd\": 1")).passed_over ==
          std::vector<std::string>{"odd"});
    CHECK(says(message_of(flux("")), "key 'num_layers' is missing"));
    CHECK(says(message_of(flux(", \"num_layers\": 2, \"patch_size\": 2")), "understood: 1"));
    CHECK(says(message_of(flux(", \"num_layers\": 2, \"dims\": {\"pixel\": 64}")),
               "the graph has no dimension 'pixel'"));
    CHECK(says(message_of(flux(", \"num_layers\": 2, \"dims\": {\"pixels\": 100}")),
               "'pixels/16': 100 is not a multiple of 16"));
  }

  TEST_CASE(
      "a class that no family describes is told of torch.export and of a family of one's own") {
    const std::string message = message_of("{\"_class_name\": \"HunyuanVideoTransformer3DModel\"}");
    CHECK(says(message, "no family describes the class 'HunyuanVideoTransformer3DModel'"));
    CHECK(says(message, "torch.export.export"));
    CHECK(says(message, "--family FILE"));
  }

  TEST_CASE("networks that sizes do not describe are known by their names") {
    const io::NetworkNames names(kFamilies);
    for (const char* label :
         {"Nemotron-3-Nano-30B-A3B", "nvidia/NVIDIA-Nemotron-3-Super-120B", "GLM-5.2",
          "Qwen3.6-35B-A3B (Qwen3.5-35B-A3B shape)", "FLUX.1-schnell", "DeepSeek-V3.2",
          "DeepSeek_V3.2-Exp", "kimi_linear 48B"}) {
      CAPTURE(label);
      CHECK_FALSE(names.reason_against(label).empty());
    }
    for (const char* label :
         {"DeepSeekV3", "DeepSeek-V3", "Qwen3_30B_a3B", "Nemotron-4-15B", "GLM-4.5", "Llama 3 405B",
          "GPT-2 style 7.5B", "", "MiniMax-M2", "mixtral-8x7b"}) {
      CAPTURE(label);
      CHECK(names.reason_against(label).empty());
    }
  }

  TEST_CASE("a class of `architectures` is described, or refused with the reason") {
    const auto classes = [](const std::string& names) {
      return llama(",\n\"architectures\": [" + names + "]");
    };
    CHECK(message_of(classes("\"LlamaForCausalLM\"")) == "no error");
    CHECK(parse(classes("\"LlamaForCausalLM\"")).passed_over.empty());
    CHECK(parse(classes("\"LlamaModel\"")).passed_over ==
          std::vector<std::string>{"architectures LlamaModel (no head)"});
    const std::string scored = message_of(classes("\"LlamaForSequenceClassification\""));
    CHECK(says(scored,
               "config.json:2:19: error: architectures[0]: LlamaForSequenceClassification is not "
               "described: "
               "it ends in a classifier of sequences"));
    CHECK(says(scored, "ForCausalLM, LMHeadModel, ForConditionalGeneration"));
    CHECK(says(message_of(classes("\"LlamaForRewardModel\"")), "it ends in a score"));
    CHECK(says(message_of(classes("\"LlamaVisionModel\"")), "it is a tower of images"));
    CHECK(says(message_of(classes("\"LlamaForPoetry\"")), "no file says what it ends in"));
    const std::string t5 =
        "{\"model_type\": \"t5\", \"num_layers\": 2, \"d_model\": 64, \"num_heads\": 4, \"d_kv\": "
        "16, "
        "\"d_ff\": 96, \"vocab_size\": 100, \"architectures\": [\"T5";
    CHECK(message_of(t5 + "ForConditionalGeneration\"]}") == "no error");
    CHECK(says(message_of(t5 + "EncoderModel\"]}"), "it is an encoder by itself"));
  }

  TEST_CASE("BERT by its class: the pooler, or the transform in front of the logits") {
    // transformers 5.23, parameters of bert-base-uncased: BertModel, BertForMaskedLM.
    const std::string bert =
        "{\"model_type\": \"bert\", \"num_hidden_layers\": 12, \"hidden_size\": 768, "
        "\"num_attention_heads\": 12, \"intermediate_size\": 3072, \"vocab_size\": 30522, "
        "\"max_position_embeddings\": 512, \"type_vocab_size\": 2, \"architectures\": [\"Bert";
    CHECK(parameter_count(build_network(parse(bert + "Model\"]}").model)) == 109482240);
    CHECK(parameter_count(build_network(parse(bert + "ForMaskedLM\"]}").model)) == 109514298);
    CHECK(says(message_of(bert + "ForPreTraining\"]}"), "it has a second head"));
  }

  TEST_CASE("layers of Nemotron-H are read as letters and as words") {
    const std::string sizes =
        "{\"model_type\": \"nemotron_h\", \"hidden_size\": 64, \"num_attention_heads\": 4, "
        "\"head_dim\": 16, \"num_key_value_heads\": 2, \"intermediate_size\": 96, \"vocab_size\": "
        "100, "
        "\"mamba_num_heads\": 4, \"mamba_head_dim\": 32, \"n_groups\": 2, \"ssm_state_size\": 16, "
        "\"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32, "
        "\"moe_shared_expert_intermediate_size\": 64, ";
    const ModelDescription letters =
        parse(sizes + "\"num_hidden_layers\": 4, \"hybrid_override_pattern\": \"ME*-\"}").model;
    const ModelDescription words =
        parse(sizes + "\"layers_block_type\": [\"mamba\", \"moe\", \"attention\", \"mlp\"]}").model;
    CHECK(build_network(words) == build_network(letters));
    CHECK(parameter_count(build_network(words)) == parameter_count(build_network(letters)));
  }

  TEST_CASE("a key that changes the network and is not understood is an error with its value") {
    const std::string gpt2 =
        "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 64, \"n_head\": 4,\n"
        " \"vocab_size\": 100, \"n_positions\": 32";
    CHECK(message_of(gpt2 + "}") == "no error");
    CHECK(message_of(gpt2 + ", \"add_cross_attention\": false}") == "no error");
    const std::string crossed = message_of(gpt2 + ", \"add_cross_attention\": true}");
    CHECK(
        says(crossed, "config.json:2:63: error: add_cross_attention: 'true' changes the network"));
    CHECK(says(crossed, "hint: understood: false"));
    CHECK(says(message_of(llama(", \"hidden_act\": \"xielu\"")),
               "hidden_act 'xielu' is not understood for llama"));
    CHECK(says(message_of(llama(", \"use_sliding_window\": true")), "changes the network"));
    // As published files have them: nothing in a map, one value for every layer.
    CHECK(message_of(llama(", \"pruned_heads\": {}")) == "no error");
    CHECK(says(message_of(llama(", \"pruned_heads\": {\"0\": [1]}")), "this list or map"));
    const auto layers = [](const std::string& kinds) {
      return "{\"model_type\": \"minimax_m2\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
             "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16, "
             "\"intermediate_size\": 96, \"num_local_experts\": 4, \"num_experts_per_tok\": 2, "
             "\"vocab_size\": 100, \"attn_type_list\": [" +
             kinds + "]}";
    };
    CHECK(message_of(layers("1, 1")) == "no error");
    CHECK(says(message_of(layers("1, 0")), "understood: null, 1;"));
    // A value may be a rule: the last expert layer is the last layer.
    const std::string ernie =
        "{\"model_type\": \"ernie4_5_moe\", \"hidden_size\": 64, \"num_hidden_layers\": 4, "
        "\"num_attention_heads\": 4, \"vocab_size\": 100, \"intermediate_size\": 96, "
        "\"moe_num_experts\": 4, \"moe_k\": 2, \"moe_intermediate_size\": 32";
    CHECK(message_of(ernie + ", \"moe_layer_end_index\": 3}") == "no error");
    CHECK(says(message_of(ernie + ", \"moe_layer_end_index\": 2}"), "understood: -1, 3;"));
    CHECK(says(message_of("{\"model_type\": \"falcon\", \"hidden_size\": 64, "
                          "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
                          "\"vocab_size\": 100, \"new_decoder_architecture\": true, "
                          "\"parallel_attn\": false}"),
               "this combination of new_decoder_architecture"));
  }

  TEST_CASE("keys nobody knows are listed, null and known ones are not") {
    const io::ModelFile file = parse(
        llama(", \"bos_token_id\": 1, \"colour\": \"red\", \"shape\": null, \"a\": {\"b\": 1}"));
    CHECK(file.passed_over == std::vector<std::string>{"a", "colour"});
    CHECK(parse(llama("")).passed_over.empty());
  }

  TEST_CASE("a composite configuration is its text, and says what is left out") {
    const io::ModelFile file = io::read_model(config_file("qwen3-vl-8b"), kFamilies);
    CHECK(file.left_out == std::vector<std::string>{"vision_config"});
    CHECK(parse(llama("")).left_out.empty());
    // The outer configuration decides whether the head is tied.
    const std::string inner = "{\"model_type\": \"llava\", \"text_config\": " + llama("");
    CHECK_FALSE(parse(inner + "}").model.embedding.tied);
    CHECK(parse(inner + ", \"tie_word_embeddings\": true}").model.embedding.tied);
  }

  TEST_CASE("null is a value, an absent key has the default of transformers") {
    const std::string mistral =
        "{\"model_type\": \"mistral\", \"num_hidden_layers\": 2, \"vocab_size\": 100, "
        "\"hidden_size\": 64, \"intermediate_size\": 96, \"num_attention_heads\": 8";
    CHECK(parse(mistral + "}").model.attention.window == 4096);
    CHECK_FALSE(parse(mistral + ", \"sliding_window\": null}").model.attention.window.has_value());
    const std::string falcon =
        "{\"model_type\": \"falcon\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
        "\"num_attention_heads\": 4, \"vocab_size\": 100}";
    CHECK(parse(falcon).model.training.seq_len == 2048);
    CHECK(parse(llama("")).model.training.seq_len == 4096);
  }

  TEST_CASE("a new family is a file: like, differences, every kind of rule") {
    const test::TemporaryDirectory directory;
    const auto family = [&](const std::string& name, const std::string& text) {
      directory.write(name + ".yaml", "schema: plansearch/family/v1\nsource: models\n" + text);
    };
    family("base",
           "defaults: {act: silu}\nignored: [x]\nmodel:\n"
           "  layers: {key: [depth, n]}\n  hidden: {key: d, times: 2}\n"
           "  attention: {heads: {entries: names, default: 4}, positions: rotary}\n"
           "  mlp: {width: {key: w, plus: 3, at_most: 100}, gated: true,"
           " activation: {key: act, words: {silu: silu}}}\n"
           "  embedding: {vocab: {field: mlp.width}}\n"
           "  training: {seq_len: 32, global_batch: 8}\n");
    family("mine",
           "like: base\nignored: [y]\nmodel:\n  norm: {kind: rmsnorm}\n  mlp: {gated: ~}\n");
    const std::string text =
        "{\"model_type\": \"mine\", \"n\": 3, \"d\": 24, \"w\": 98, \"x\": 1, \"y\": 2,"
        " \"names\": {\"a\": 0, \"b\": 0}}";
    const io::ModelFile file = parse(text, directory.path());
    CHECK(file.model.layers == 3);
    CHECK(file.model.hidden == 48);
    CHECK(file.model.attention.heads == 2);
    CHECK(file.model.mlp.width == 100);
    CHECK(file.model.embedding.vocab == 100);
    CHECK_FALSE(file.model.mlp.gated);
    CHECK(file.model.norm.kind == NormKind::RmsNorm);
    CHECK(file.passed_over.empty());

    family("loop", "like: loop\n");
    CHECK(
        says(message_of("{\"model_type\": \"loop\"}", directory.path()), "refers back to itself"));
    family("odd", "like: base\nmodel:\n  layers: {key: n, plu: 2}\n");
    CHECK(says(message_of("{\"model_type\": \"odd\"}", directory.path()),
               "odd.yaml:5:20: error: 'plu' is not a key of a rule"));
    family("self", "like: base\nmodel:\n  layers: {field: hidden}\n  hidden: {field: layers}\n");
    CHECK(
        says(message_of("{\"model_type\": \"self\"}", directory.path()), "refers back to itself"));
    family("lost", "like: elsewhere\n");
    CHECK(says(message_of("{\"model_type\": \"lost\"}", directory.path()), "there is no family"));
    for (const char* name : {"../base", "_decoder", "", ".", "base/../base"}) {
      CHECK(
          says(message_of("{\"model_type\": \"" + std::string(name) + "\"}"), "is not supported"));
    }
  }

  TEST_CASE("a folder with a config.json is a model, a folder without one is not") {
    const test::TemporaryDirectory directory;
    directory.write("my-llama/config.json", llama(""));
    const std::vector<fs::path> models = {PLANSEARCH_SOURCE_DIR "/models"};
    const std::string folder = (directory.path() / "my-llama").string();
    CHECK(io::load_model(folder, models).model.name == "my-llama");
    CHECK(io::load_model(folder + "/", models).model.name == "my-llama");
    CHECK_THROWS_WITH_AS(static_cast<void>(io::load_model(directory.path().string(), models)),
                         doctest::Contains("no config.json"), InputError);
  }
}

}  // namespace plansearch::family_test
