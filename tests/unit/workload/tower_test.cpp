// SPDX-License-Identifier: Apache-2.0
// Decoders behind a vision tower. Counts by hand: Qwen3-VL has a convolution over patches of two frames, a table of 48 x 48
// positions, 27 layers of width h = 1152 with an MLP of 4304, a merger of 2 x 2 patches and three of deeper layers; SigLIP in
// Gemma 3 has 64 x 64 patches, no mergers, and a projector.
#include <doctest/doctest.h>

#include "descriptions.hpp"
#include "io/model/model_reader.hpp"
#include "io/model/model_sections.hpp"
#include "support/broken_rules.hpp"
#include "support/source_directory.hpp"
#include "workload/network_edges.hpp"

namespace plansearch::tower_test {

using test::block_named;

namespace {

constexpr std::int64_t kH = 1152;
constexpr std::int64_t kF = 4304;
/// Two norms, four products with biases around attention, two of the MLP.
constexpr std::int64_t kLayer = 2 * 2 * kH + 4 * (kH * kH + kH) + 2 * kH * kF + kF + kH;

ModelDescription model_of(const std::string& name) {
  return io::read_model(std::filesystem::path(PLANSEARCH_SOURCE_DIR "/models") / (name + ".yaml"))
      .model;
}

Network with_images(const ModelDescription& model, std::int64_t count, bool frozen = false) {
  return build_network(model, {.images = {count, frozen}});
}

std::int64_t merger(std::int64_t normed, std::int64_t out) {
  const std::int64_t joined = 4 * kH;
  return 2 * normed + joined * joined + joined + joined * out + out;
}

double saved_elements(const Network& network, const Block& block) {
  double elements = 0.0;
  for (const Operator& op : block.operators) {
    for (const Saved& saved : op.saved)
      elements += element_count(network, block.tensor(saved.tensor).dims);
  }
  return elements;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("towers have the parameters that are published beside the text's") {
    const std::int64_t patches = 3 * 2 * 16 * 16 * kH + kH + 2304 * kH;
    const auto tower = [](const char* name) {
      return parameter_count(*model_of(name).tower.value().network);
    };
    CHECK(tower("qwen3-vl-235b-a22b") ==
          patches + 27 * kLayer + merger(kH, 4096) + 3 * merger(4 * kH, 4096));
    CHECK(tower("qwen3.5-27b") == patches + 27 * kLayer + merger(kH, 5120));
    // huggingface.co/google/gemma-3-4b-pt: 4,300,079,472 parameters in all.
    const ModelDescription gemma = model_of("gemma-3-4b");
    CHECK(parameter_count(with_images(gemma, 1)) == 4'300'079'472);
    // huggingface.co/Qwen/Qwen3-VL-8B-Instruct: 8,767,123,696 in all.
    const ModelDescription small =
        io::read_model(PLANSEARCH_SOURCE_DIR "/tests/data/hf/qwen3-vl-8b.json",
                       PLANSEARCH_SOURCE_DIR "/models/families")
            .model;
    CHECK(parameter_count(with_images(small, 1)) == 8'767'123'696);
  }

  TEST_CASE("the text is the same without images, and behind them") {
    const ModelDescription model = model_of("gemma-3-4b");
    ModelDescription text = model;
    text.tower.reset();
    CHECK(build_network(model) == build_network(text));
    const Network plain = build_network(text);
    const Network joined = with_images(model, 2);
    CHECK(test::broken_rules(joined).empty());
    for (const char* name : {"decoder", "decoder-window", "head"})
      CHECK(block_named(joined, name) == block_named(plain, name));
    CHECK(layer_count(joined) == layer_count(plain));
  }

  TEST_CASE("each image attends to itself, and images add up") {
    const ModelDescription model = model_of("gemma-3-4b");
    const double text = model_forward_flops(build_network(model)).value();
    const double one = model_forward_flops(with_images(model, 1)).value() - text;
    const double three = model_forward_flops(with_images(model, 3)).value() - text;
    CHECK(three == doctest::Approx(3.0 * one).epsilon(1e-12));
    const double n = 64 * 64;
    const double layer =
        4.0 * kH * kH + 2.0 * kH * kF + 2.0 * n * kH;  // products, scores and context
    const double hand = 2.0 * n * (27 * layer + 3 * 14 * 14 * kH) + 2.0 * 256 * kH * 2560;
    CHECK(one == doctest::Approx(hand).epsilon(1e-12));
    CHECK(tokens_of_image(*model.tower->network) == 256);
  }

  TEST_CASE("a frozen tower keeps nothing, and only the text is trained") {
    const ModelDescription model = model_of("gemma-3-4b");
    const Network frozen = with_images(model, 2, true);
    const Network trained = with_images(model, 2);
    CHECK(test::broken_rules(frozen).empty());
    CHECK(trainable_parameter_count(frozen) == parameter_count(build_network(model)));
    CHECK(trainable_parameter_count(trained) == parameter_count(trained));
    for (const char* name : {"vision-patches", "vision-layer", "vision-projector"}) {
      CHECK(saved_elements(frozen, block_named(frozen, name)) == 0.0);
      CHECK(saved_elements(trained, block_named(trained, name)) > 0.0);
    }
    const double text = model_forward_flops(build_network(model)).value();
    const double tower = model_forward_flops(frozen).value() - text;
    CHECK(model_training_flops(frozen).value() ==
          doctest::Approx(3.0 * text + tower).epsilon(1e-3));
  }

  TEST_CASE("adapters of the text leave the tower frozen") {
    ModelDescription model = model_of("gemma-3-4b");
    model.training.lora = LoraDescription{4, {"q"}};
    const Network network = with_images(model, 1);
    CHECK(trainable_parameter_count(network) == trainable_parameter_count(build_network(model)));
    CHECK(saved_elements(network, block_named(network, "vision-layer")) == 0.0);
  }

  TEST_CASE("every tower's family builds a network before a text") {
    const std::filesystem::path folder(PLANSEARCH_SOURCE_DIR "/models/families/towers");
    int towers = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".yaml") continue;
      const io::Document config = io::Document::parse(
          "{model_type: " + entry.path().stem().string() + "}", "t.yaml", io::Syntax::Yaml);
      ModelDescription model = model_of("llama3.2-1b");
      std::vector<std::string> unknown;
      model.tower = io::read_tower(config.root(), model.hidden, folder.parent_path(), unknown);
      CAPTURE(entry.path().string());
      CHECK(unknown.empty());
      REQUIRE(model.tower.has_value());
      CHECK(test::broken_rules(with_images(model, 2)).empty());
      ++towers;
    }
    CHECK(towers == 5);
  }

  TEST_CASE("a tower of another kind leaves the text as it is") {
    const auto read = [](const std::string& tower) {
      const std::string text =
          "{\"model_type\": \"qwen3_vl\", \"text_config\": {\"model_type\": \"qwen3_vl_text\", "
          "\"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
          "\"num_key_value_heads\": 2, \"intermediate_size\": 96, \"vocab_size\": 100}, "
          "\"vision_config\": " +
          tower + "}";
      return io::read_model(io::Document::parse(text, "c.json", io::Syntax::Json), "c",
                            PLANSEARCH_SOURCE_DIR "/models/families");
    };
    CHECK(read("{\"model_type\": \"qwen3_vl\", \"depth\": 3}").model.tower.has_value());
    for (const char* tower :
         {"{\"model_type\": \"moonvit\"}", "{}", "{\"model_type\": \"../qwen3_vl\"}",
          "{\"model_type\": \"qwen3_vl\", \"hidden_act\": \"swish\"}"}) {
      CHECK_FALSE(read(tower).model.tower.has_value());
      CHECK(read(tower).left_out == std::vector<std::string>{"vision_config"});
    }
    const io::ModelFile odd = read("{\"model_type\": \"qwen3_vl\", \"colour\": 1}");
    CHECK(odd.passed_over == std::vector<std::string>{"vision_config.colour"});
  }
}

}  // namespace plansearch::tower_test
