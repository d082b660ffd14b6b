// SPDX-License-Identifier: Apache-2.0
// Every shipped model reads, is well formed and has the published number of parameters.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/names.hpp"
#include "io/model/model_reader.hpp"
#include "plansearch/transformer_builder.hpp"
#include "support/broken_rules.hpp"
#include "support/source_directory.hpp"

namespace plansearch::model_files_test {

namespace {

std::vector<std::filesystem::path> shipped() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(PLANSEARCH_SOURCE_DIR "/models")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::int64_t count_of(const std::string& name) {
  const std::filesystem::path directory(PLANSEARCH_SOURCE_DIR "/models");
  return parameter_count(build_network(io::read_model(directory / (name + ".yaml")).model));
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("every shipped model reads and makes well-formed networks") {
    REQUIRE(shipped().size() > 80);
    for (const std::filesystem::path& path : shipped()) {
      CAPTURE(path.string());
      io::ModelFile file;
      try {
        file = io::read_model(path);
      } catch (const InputError& error) {
        FAIL_CHECK(error.formatted());
        continue;
      }
      CHECK(file.model.name == path.stem().string());
      CHECK_FALSE(file.model.source.empty());
      CHECK(file.model.training.global_batch > 0);
      const Network network = build_network(file.model, {.attention = AttentionKind::Unfused});
      CHECK(test::broken_rules(network).empty());
      CHECK(model_forward_flops(network).value() > 0.0);
    }
  }

  TEST_CASE("names and aliases of shipped models are unique") {
    std::set<std::string> seen;
    for (const std::filesystem::path& path : shipped()) {
      const io::ModelFile file = io::read_model(path);
      CHECK(seen.insert(canonical_name(file.model.name)).second);
      for (const std::string& alias : file.aliases) {
        CAPTURE(alias);
        CHECK(seen.insert(canonical_name(alias)).second);
      }
    }
  }

  TEST_CASE("models are found by name, by alias, by path; a miss suggests names") {
    const std::vector<std::filesystem::path> directories = {PLANSEARCH_SOURCE_DIR "/models"};
    CHECK(io::load_model("GPT2_XL", directories).model.name == "gpt2-xl");
    CHECK(io::load_model("gpt2-xl.yaml", directories).model.name == "gpt2-xl");
    CHECK(io::load_model("llama-3-70b", directories).model.name == "llama3-70b");
    CHECK(io::load_model("llama3-405b", directories).model.name == "llama3.1-405b");
    const auto path =
        std::filesystem::path(PLANSEARCH_SOURCE_DIR "/tests/data") / "hf" / "phi-2.json";
    CHECK(io::load_model(path.string(), directories).model.name == "phi-2");
    try {
      static_cast<void>(io::load_model("gtp2-xl", directories));
      FAIL("found");
    } catch (const InputError& error) {
      CHECK(std::string(error.what()) == "unknown model 'gtp2-xl'");
      CHECK(error.hint().find("gpt2-xl") != std::string::npos);
    }
    CHECK(io::list_models(directories).size() == shipped().size());
  }

  TEST_CASE("published parameter counts") {
    // Counts of the published checkpoints. The files repeat them (`parameters:`); here they stand
    // a second time so that a file and its sizes cannot drift together.
    const std::map<std::string, std::int64_t> published = {
        {"gpt2-xl", 1557611200},
        {"llama2-7b", 6738415616},
        {"llama2-13b", 13015864320},
        {"llama2-70b", 68976648192},
        {"llama3-8b", 8030261248},
        {"llama3-70b", 70553706496},
        {"llama3.1-8b", 8030261248},
        {"llama3.1-70b", 70553706496},
        {"llama3.1-405b", 405853388800},
        {"mistral-7b", 7241732096},
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
        {"deepseek-v2-lite", 15706484224},
        {"deepseek-v3", 671026419200},  // with the 58 x 256 router-correction biases
        {"gpt-oss-20b", 20914757184},
        {"gpt-oss-120b", 116829156672},
        {"opt-30b", 29974540288},
        {"gpt-neox-20b", 20554567680},
        {"pythia-70m", 70426624},
        {"pythia-1b", 1011781632},
        {"bloom-176b", 176247271424},
        {"falcon-7b", 6921720704},
        {"falcon-40b", 41303293952},
        {"phi-2", 2779683840},
        {"gemma-2b", 2506172416},
        {"gemma-7b", 8537680896},
        {"gemma2-9b", 9241705984},
        {"gemma-3-270m", 268098176},
        {"phi-3-mini", 3821079552},
        {"roberta-large", 355412057},
        {"starcoder2-15b", 15957889024},
        {"bert-base", 109482240},
        {"vit-base-patch16-224", 86567656},
        {"vit-large-patch16-224", 304326632},
        {"vit-huge-patch14-224", 632045800},
        {"t5-v1_1-xxl", 11135332352},
        {"mt5-xxl", 12921057280},
        {"mbart-large-50", 610879488},
    };
    for (const auto& [name, count] : published) {
      const std::string shown = name;
      CAPTURE(shown);
      CHECK(count_of(name) == count);
    }
  }

  TEST_CASE("the balancing biases are the difference between DeepSeek-V3's two counts") {
    const std::filesystem::path directory(PLANSEARCH_SOURCE_DIR "/models");
    ModelDescription model = io::read_model(directory / "deepseek-v3.yaml").model;
    model.moe->correction_bias = false;
    CHECK(parameter_count(build_network(model)) == 671026404352);
  }

  TEST_CASE("counts without a published value, by the closed form of the family") {
    // Megatron: L(12 h^2 + 13 h) + (V + s) h + 2 h.
    const auto gpt = [](std::int64_t l, std::int64_t h) {
      return l * (12 * h * h + 13 * h) + (51200 + 2048) * h + 2 * h;
    };
    CHECK(count_of("megatron-22b") == gpt(48, 6144));
    CHECK(count_of("gpt3-175b") == gpt(96, 12288));
    CHECK(count_of("gpt-80b") == gpt(42, 12288));
    CHECK(count_of("turing-530b") == gpt(105, 20480));
    CHECK(count_of("megatron-1t") == gpt(128, 25600));
    // Image classifiers: L(12 h^2 + 13 h), patches of p x p x 3 with a bias, a class token,
    // positions for it and every patch, a final norm, 1000 classes.
    const auto vit = [](std::int64_t l, std::int64_t h, std::int64_t p) {
      const std::int64_t patches = (224 / p) * (224 / p);
      return l * (12 * h * h + 13 * h) + (3 * p * p + 1) * h + h + (patches + 1) * h + 2 * h +
             (h + 1) * 1000;
    };
    CHECK(count_of("vit-base-patch16-224") == vit(12, 768, 16));
    CHECK(count_of("vit-large-patch16-224") == vit(24, 1024, 16));
    CHECK(count_of("vit-huge-patch14-224") == vit(32, 1280, 14));
    CHECK(count_of("kimi-k2") == 1026408232448);
    CHECK(count_of("qwen3-coder-480b-a35b") == 480154875392);
  }

  TEST_CASE("a multi-token prediction module adds a layer, a projection and three norms") {
    const std::filesystem::path directory(PLANSEARCH_SOURCE_DIR "/models");
    ModelDescription model = io::read_model(directory / "deepseek-v3.yaml").model;
    const std::int64_t plain = parameter_count(build_network(model));
    const Network without = build_network(model);
    model.mtp_layers = 1;
    const std::int64_t h = 7168;
    std::int64_t layer = 0;
    for (const Block& block : without.blocks) {
      if (block.name == "decoder-experts") {
        layer = static_cast<std::int64_t>(block_parameter_count(without, block));
      }
    }
    CHECK(parameter_count(build_network(model)) - plain == layer + 2 * h * h + 3 * h);
  }
}

}  // namespace plansearch::model_files_test
