// SPDX-License-Identifier: Apache-2.0
#include "evidence/validate/run_prediction.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

#include "run_tables.hpp"

namespace plansearch::architecture_table_test {
namespace {

std::vector<std::string> names(const ArchitectureTable& table, const test::Cells& changes) {
  std::vector<std::string> found;
  for (const ArchitectureEntry* entry : table.matching(test::run_of(changes))) {
    found.push_back(entry->name);
  }
  return found;
}

const test::Cells kDeepSeek{{"mlp", "gated"},        {"layers", "61"},    {"hidden", "7168"},
                            {"ffn_hidden", "18432"}, {"heads", "128"},    {"moe_experts", "256"},
                            {"moe_topk", "8"},       {"moe_ffn", "2048"}, {"vocab", "129280"}};

test::Cells with(test::Cells cells, const std::string& column, const std::string& value) {
  cells[column] = value;
  return cells;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("columns decide which published model fills the rest") {
    const ArchitectureTable table = test::shipped_architectures();
    CHECK(names(table, {}) == std::vector<std::string>{"gpt-2 style"});
    CHECK(names(table, {{"mlp", "gated"}}) == std::vector<std::string>{"llama style"});
    CHECK(names(table, with(kDeepSeek, "model", "some label")) ==
          std::vector<std::string>{"llama style", "deepseek-v3"});
    // Another number of experts is another model, whatever the label says.
    CHECK(names(table, with(with(kDeepSeek, "model", "DeepSeekV3"), "moe_experts", "128")) ==
          std::vector<std::string>{"llama style"});
  }

  TEST_CASE("the label decides on the prediction module only") {
    const ArchitectureTable table = test::shipped_architectures();
    const auto mtp = [&](const std::string& label) {
      const auto found = names(table, with(kDeepSeek, "model", label));
      return std::count(found.begin(), found.end(), "deepseek-v3 with its prediction module");
    };
    CHECK(mtp("DeepSeekV3") == 1);
    CHECK(mtp("DeepSeekV3 (w/o MTP)") == 0);
    CHECK(mtp("DeepSeekV3 (tokendrop)") == 0);
  }

  TEST_CASE("published configurations fill columns that rows leave empty") {
    const ArchitectureTable table = test::shipped_architectures();
    const test::Cells lora{{"source", "MLPerf Training v5.0 closed results (Llama 2 70B LoRA)"},
                           {"hw", "dgx-b200"},
                           {"gpus", "8"},
                           {"cp", "8"}};
    const auto names = [&](const test::Cells& cells) {
      std::vector<std::string> found;
      for (const ArchitectureEntry* entry : table.matching(test::run_of(cells))) {
        if (entry->name.starts_with("MLPerf")) found.push_back(entry->name);
      }
      return found;
    };
    const auto entry = [&](const test::Cells& cells, const std::string& name) {
      for (const ArchitectureEntry* one : table.matching(test::run_of(cells))) {
        if (one->name == name) return *one;
      }
      throw std::runtime_error("no entry of that name holds");
    };
    const std::string container = "MLPerf v5.0 LoRA in NVIDIA's container";
    CHECK(names(lora) == std::vector<std::string>{container, container + ", eight context ranks"});
    const ArchitectureEntry nvidia = entry(lora, container);
    CHECK(nvidia.degrees.get(Degree::ContextKind) == static_cast<int>(ContextKind::Ulysses));
    REQUIRE(nvidia.settings.size() == 2);
    CHECK(nvidia.settings.back().first->column == "base_precision");
    CHECK(entry(lora, container + ", eight context ranks").settings.front().second == "1");
    CHECK(names(with(lora, "cp", "2")) == std::vector<std::string>{container});
    const auto amd = with(lora, "hw", "mi300x-8");
    CHECK(names(amd) == std::vector<std::string>{"MLPerf v5.0 LoRA of AMD's accelerators",
                                                 "MLPerf v5.0 LoRA on MI300X"});
    CHECK(entry(amd, "MLPerf v5.0 LoRA of AMD's accelerators").settings.front().second == "fp8");
    CHECK(entry(amd, "MLPerf v5.0 LoRA on MI300X").degrees.get(Degree::RecomputeLayers) == 21);
    // On sixteen Blackwell GPUs the graphs are captured with two context ranks too.
    CHECK(names(with(with(lora, "cp", "2"), "gpus", "16")).size() == 2);
  }

  TEST_CASE("which stage a memory figure is of") {
    const ArchitectureTable table = test::shipped_architectures();
    CHECK(table.memory_figure("megatron") == MemoryRank::LastStage);
    CHECK(table.memory_figure("fsdp") == MemoryRank::Worst);
    CHECK(table.memory_figure("unheard of") == MemoryRank::Worst);
    CHECK(table.default_vocab == 51200);
  }
}

}  // namespace plansearch::architecture_table_test
