// SPDX-License-Identifier: Apache-2.0
#include "io/model/model_reader.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <string>

#include "io/document/file.hpp"
#include "plansearch/transformer_builder.hpp"
#include "support/source_directory.hpp"

namespace plansearch::model_reader_test {

namespace {

const std::string kSmall = R"(schema: plansearch/model/v1
name: small
source: "a test"
layers: 2
hidden: 64
attention:
  heads: 4
  positions: rotary
mlp:
  activation: gelu
embedding:
  vocab: 100
training:
  seq_len: 32
  global_batch: 8
)";

io::ModelFile parse(const std::string& text) {
  return io::read_model(io::Document::parse(text, "m.yaml", io::Syntax::Yaml), "m");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(parse(text));
  } catch (const InputError& error) {
    return error.formatted();
  }
  return "no error";
}

void check_error(const std::string& text, const std::string& part) {
  const std::string message = error_of(text);
  CAPTURE(message);
  CHECK(message.find(part) != std::string::npos);
}

/// One random edit of a text: flip, insert, delete, repeat or shorten.
std::string mutated(const std::string& text, std::mt19937& random) {
  static const std::string alphabet = "0123456789-.:{}[]\"',\n #&*!ab\xff";
  std::string out = text;
  const int edits = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < edits && !out.empty(); ++i) {
    const std::size_t at = random() % out.size();
    const char letter = alphabet[random() % alphabet.size()];
    switch (random() % 5) {
      case 0:
        out[at] = letter;
        break;
      case 1:
        out.insert(at, 1 + random() % 8, letter);
        break;
      case 2:
        out.erase(at, 1 + random() % 8);
        break;
      case 3:
        out.insert(at, out.substr(random() % out.size(), random() % 40));
        break;
      default:
        if (random() % 8 == 0) out.resize(at);
        break;
    }
  }
  return out;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("defaults of a small model file") {
    const ModelDescription model = parse(kSmall).model;
    CHECK(model.stack == StackKind::Decoder);
    CHECK(model.attention.kv_heads == 4);
    CHECK(model.attention.head_size == 16);
    CHECK(model.mlp.width == 256);
    CHECK(model.norm.placement == NormPlacement::Pre);
    CHECK(model.dropout == 0.0);
    CHECK_FALSE(model.moe.has_value());
    CHECK(parse(kSmall).format == io::ModelFormat::Plansearch);
  }

  TEST_CASE("everything a file can say arrives") {
    const ModelDescription model = parse(kSmall + R"(  precision: fp8
  optimizer: muon
  frozen: ["*/expert_in.*"]
experts:
  count: 8
  top_k: 2
  width: 32
  capacity_factor: 1.25
  imbalance: 1.5
mtp_layers: 1
)")
                                       .model;
    CHECK(model.training.precision == DataType::Fp8);
    CHECK(model.training.optimizer == OptimizerKind::Muon);
    CHECK(model.training.frozen.size() == 1);
    const Network network = build_network(model);
    REQUIRE(network.routing.has_value());
    CHECK(*network.routing == Routing{8, 2, 1.25, 1.5});
  }

  TEST_CASE("errors carry their place and a remedy") {
    check_error(replaced(kSmall, "heads: 4", "head: 4"),
                "m.yaml:7:3: error: attention: key 'heads'");
    check_error(kSmall + "hiden: 3\n", "m.yaml:16:1: error: unknown key 'hiden'");
    check_error(kSmall + "hiden: 3\n", "did you mean hidden?");
    check_error(replaced(kSmall, "layers: 2", "layers: -2"), "m.yaml:4:9: error: layers:");
    check_error(replaced(kSmall, "layers: 2", "layers: 2.5"), "layers:");
    check_error(replaced(kSmall, "layers: 2", "layers: 1000000000"), "layers:");
    check_error(replaced(kSmall, "heads: 4", "heads: 5"), "hidden 64 is not a multiple of heads 5");
    check_error(replaced(kSmall, "rotary", "rotory"), "rotary");
    check_error(replaced(kSmall, "rotary", "learned"), "learned positions need position_rows");
    check_error(replaced(kSmall, "model/v1", "model/v9"), "write schema: plansearch/model/v1");
    check_error(replaced(kSmall, "schema: plansearch/model/v1\n", ""), "neither 'schema'");
    check_error(kSmall + "parameters: 12\n", "m.yaml:16:13: error: parameters: the sizes make");
    check_error("- a\n- b\n", "expected a model file");
    check_error(kSmall + "  precision: int3\n", "unknown precision 'int3'");
    check_error(kSmall + "dropout:\n  residual: 1.5\n", "below 1");
    check_error(replaced(kSmall, "  seq_len: 32\n", "") + "stack: vision\n", "needs vision sizes");
  }

  TEST_CASE("absurd sizes are refused, not multiplied") {
    std::string text = replaced(kSmall, "hidden: 64", "hidden: 10000000");
    text = replaced(text, "heads: 4", "heads: 10000000");
    text = replaced(text, "layers: 2", "layers: 10000");
    check_error(text, "parameters");
  }
}

TEST_SUITE("fuzz") {
  TEST_CASE("2000 mutated model files load or are refused") {
    const std::filesystem::path models(PLANSEARCH_SOURCE_DIR "/models");
    const std::filesystem::path configs =
        std::filesystem::path(PLANSEARCH_SOURCE_DIR "/tests/data") / "hf";
    struct Seed {
      std::string text;
      io::Syntax syntax;
    };
    const std::vector<Seed> seeds = {
        {io::read_file(models / "gpt2-xl.yaml"), io::Syntax::Yaml},
        {io::read_file(models / "deepseek-v3.yaml"), io::Syntax::Yaml},
        {io::read_file(models / "vit-base-patch16-224.yaml"), io::Syntax::Yaml},
        {io::read_file(configs / "deepseek-v3.json"), io::Syntax::Json},
        {io::read_file(configs / "mbart-large-50.json"), io::Syntax::Json}};
    std::mt19937 random(20240607);
    int loaded = 0;
    for (int i = 0; i < 2000; ++i) {
      const Seed& seed = seeds[static_cast<std::size_t>(i) % seeds.size()];
      const std::string text = mutated(seed.text, random);
      try {
        const io::ModelFile file = io::read_model(io::Document::parse(text, "fuzz", seed.syntax),
                                                  "fuzz", models / "families");
        ++loaded;
        CHECK(parameter_count(build_network(file.model)) > 0);
      } catch (const InputError&) {
        // Refused with a message: fine.
      } catch (const std::exception& error) {
        FAIL_CHECK(error.what() << " for\n" << text);
      }
    }
    CHECK(loaded > 100);
  }
}

}  // namespace plansearch::model_reader_test
