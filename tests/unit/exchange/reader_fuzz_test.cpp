// SPDX-License-Identifier: Apache-2.0
// Every reader, on files cut off at every byte and with single bits flipped: it loads or it throws
// an InputError that names the file, and nothing else ever happens.
#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <vector>

#include "evidence/validate/kernel_validation.hpp"
#include "evidence/validate/run_record.hpp"
#include "io/document/document.hpp"
#include "io/document/file.hpp"
#include "io/framework/framework_reader.hpp"
#include "io/hardware/profile_reader.hpp"
#include "io/model/model_reader.hpp"
#include "io/plan/blocks_document.hpp"
#include "io/plan/plan_document.hpp"
#include "io/tables/csv.hpp"
#include "plansearch/error.hpp"
#include "support/mutator.hpp"
#include "support/source_directory.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::io::reader_fuzz_test {
namespace {

namespace fs = std::filesystem;

std::string source_file(const std::string& name) {
  return read_file(fs::path(PLANSEARCH_SOURCE_DIR) / name);
}

struct Outcomes {
  int loaded = 0;
  int refused = 0;
};

using Reader = std::function<void(const std::string&)>;

/// Whether the text loads; anything but an InputError with a message is a failure.
bool loads(const Reader& read, const std::string& text) {
  try {
    read(text);
    return true;
  } catch (const InputError& error) {
    CHECK_FALSE(std::string(error.what()).empty());
  } catch (const std::exception& error) {
    FAIL_CHECK(error.what() << " for\n" << text);
  }
  return false;
}

Outcomes cut_everywhere(const Reader& read, const std::string& text, std::size_t step = 1) {
  Outcomes outcomes;
  for (std::size_t length = 0; length < text.size(); length += step) {
    ++(loads(read, text.substr(0, length)) ? outcomes.loaded : outcomes.refused);
  }
  CHECK(loads(read, text));
  return outcomes;
}

Outcomes damage(const Reader& read, const std::string& text, int times) {
  test::Mutator mutator(20250101);
  Outcomes outcomes;
  for (int i = 0; i < times; ++i) {
    const std::size_t at = mutator.below(text.size());
    const std::string flipped =
        test::with_flipped_bit(text, at, static_cast<unsigned>(mutator.below(8)));
    ++(loads(read, flipped) ? outcomes.loaded : outcomes.refused);
    ++(loads(read, mutator.damage(text)) ? outcomes.loaded : outcomes.refused);
  }
  return outcomes;
}

Reader document_reader(Syntax syntax) {
  return [syntax](const std::string& text) {
    static_cast<void>(Document::parse(text, "fuzz", syntax));
  };
}

Reader model_reader(Syntax syntax) {
  return [syntax](const std::string& text) {
    static_cast<void>(read_model(Document::parse(text, "fuzz", syntax), "fuzz",
                                 PLANSEARCH_SOURCE_DIR "/models/families"));
  };
}

/// Files that a reader opens by path.
class FileReader {
 public:
  explicit FileReader(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] Reader plan() const {
    return [this](const std::string& text) {
      static_cast<void>(read_plan_document(directory_.write(name_, text)));
    };
  }
  [[nodiscard]] Reader framework() const {
    return [this](const std::string& text) {
      const std::vector<fs::path> shipped{fs::path(PLANSEARCH_SOURCE_DIR) / "frameworks"};
      static_cast<void>(load_framework(directory_.write(name_, text).string(), shipped));
    };
  }
  [[nodiscard]] Reader cluster() const {
    return [this](const std::string& text) {
      const std::vector<fs::path> shipped{fs::path(PLANSEARCH_SOURCE_DIR) / "hardware_profiles"};
      static_cast<void>(load_cluster(directory_.write(name_, text).string(), shipped));
    };
  }

 private:
  std::string name_;
  test::TemporaryDirectory directory_;
};

void read_run_table(const std::string& text) {
  static_cast<void>(read_runs(CsvTable::parse(text, "runs.csv")));
}

void read_kernel_table(const std::string& text) {
  static_cast<void>(recognise_table(CsvTable::parse(text, "kernels.csv")));
}

constexpr const char* kPlan = R"(schema: plansearch/plan/v1
description: "a plan"
hardware: selene
model: {name: gpt3-175b, hash: 5f1d7a84dd1c2f6b}
gpus: 1536
batch: 1536
precision: fp16
degrees: {dp: 16, pp: 12, tp: 8, micro_batch: 1, vpp: 2, sp: true, zero: 1, recompute: full}
)";

constexpr const char* kJsonPlan =
    R"({"schema": "plansearch/plan/v1", "model": {"name": "gpt2-xl", "hash": "00ff"},
 "gpus": 64, "degrees": {"dp": 16, "pp": 4, "schedule": "1f1b", "cp_kind": "ring"}})";

TEST_SUITE("fuzz") {
  TEST_CASE("blocks to be ordered, cut off and damaged") {
    const std::string text = source_file("validation/reproduce/nnscaler/interlaced.yaml");
    const Reader read = [](const std::string& blocks) {
      static_cast<void>(parse_blocks(blocks, "fuzz"));
    };
    CHECK(cut_everywhere(read, text, 3).refused > 100);
    CHECK(damage(read, text, 500).refused > 100);
  }

  TEST_CASE("a JSON file cut off anywhere is refused") {
    for (const char* name : {"tests/data/hf/mixtral-8x7b.json", "tests/data/hf/gpt2-xl.json",
                             "docs/schema/plan.v1.schema.json"}) {
      std::string text = source_file(name);
      while (text.back() == '\n') text.pop_back();
      CHECK(cut_everywhere(document_reader(Syntax::Json), text).loaded == 0);
    }
  }

  TEST_CASE("JSON and YAML trees with damaged bytes load or are refused") {
    for (const auto& [name, syntax] :
         {std::pair{"tests/data/hf/deepseek-v3.json", Syntax::Json},
          std::pair{"models/deepseek-v3.yaml", Syntax::Yaml},
          std::pair{"frameworks/megatron.yaml", Syntax::Yaml},
          std::pair{"hardware_profiles/perlmutter.yaml", Syntax::Yaml}}) {
      const Outcomes outcomes = damage(document_reader(syntax), source_file(name), 300);
      CHECK(outcomes.loaded > 50);
      CHECK(outcomes.refused > 20);
    }
  }

  TEST_CASE("models cut off at every byte") {
    const std::string yaml = source_file("models/deepseek-v3.yaml");
    CHECK(cut_everywhere(model_reader(Syntax::Yaml), yaml).refused > 400);
    const std::string json = source_file("tests/data/hf/qwen3-30b-a3b.json");
    CHECK(cut_everywhere(model_reader(Syntax::Json), json).loaded <= 1);  // but for the last line
  }

  TEST_CASE("plans cut off at every byte, and with damaged bytes") {
    const FileReader yaml("plan.yaml");
    CHECK(cut_everywhere(yaml.plan(), kPlan).refused > 100);
    CHECK(damage(yaml.plan(), kPlan, 200).refused > 80);
    const FileReader json("plan.json");
    CHECK(cut_everywhere(json.plan(), kJsonPlan).loaded == 0);
    CHECK(damage(json.plan(), kJsonPlan, 200).refused > 80);
  }

  TEST_CASE("frameworks cut off, and with damaged bytes") {
    const std::string text = source_file("frameworks/megatron.yaml");
    const FileReader file("mine.yaml");
    CHECK(cut_everywhere(file.framework(), text, 11).refused > 100);
    CHECK(damage(file.framework(), text, 150).refused > 50);
  }

  TEST_CASE("profiles cut off at every byte") {
    const FileReader file("mine.yaml");
    CHECK(cut_everywhere(file.cluster(), source_file("hardware_profiles/perlmutter.yaml"), 3)
              .refused > 50);
  }

  TEST_CASE("tables of runs and kernels cut off at every byte, and with damaged bytes") {
    const std::string runs = source_file("tests/data/validate/runs.csv");
    CHECK(cut_everywhere(read_run_table, runs).refused > 200);
    CHECK(damage(read_run_table, runs, 600).refused > 100);
    for (const char* name : {"matmul.csv", "attention.csv", "collective.csv"}) {
      const std::string text = source_file(std::string("tests/data/validate/") + name);
      CHECK(cut_everywhere(read_kernel_table, text).refused > 50);
      CHECK(damage(read_kernel_table, text, 200).refused > 0);
    }
  }
}

}  // namespace
}  // namespace plansearch::io::reader_fuzz_test
