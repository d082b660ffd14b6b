// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fstream>
#include <set>

#include "io/document/file.hpp"
#include "io/framework/framework_reader.hpp"
#include "plan/legality/legality.hpp"
#include "support/source_directory.hpp"
#include "unit/communication/small_networks.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::io::framework_test {
namespace {

namespace fs = std::filesystem;

const std::vector<fs::path>& shipped() {
  static const std::vector<fs::path> kDirectories{fs::path(PLANSEARCH_SOURCE_DIR) / "frameworks"};
  return kDirectories;
}

/// A file beside copies of nothing: bases come from the shipped frameworks.
std::string error_of(const std::string& text) {
  const test::TemporaryDirectory directory;
  const fs::path path = directory.path() / "broken.yaml";
  std::ofstream(path) << text;
  try {
    static_cast<void>(load_framework(path.string(), shipped()));
  } catch (const InputError& error) {
    return error.formatted();
  }
  return "no error";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_SUITE("unit") {
  TEST_CASE("frameworks: a word for kernels may mean another implementation of an operator") {
    constexpr auto kLoss = static_cast<std::size_t>(MemoryBound::Loss);
    const auto chosen = [&](const char* name, const char* set) {
      Framework framework = load_framework(name, shipped());
      choose_set(framework.operators, set);
      return framework.operators.chosen[kLoss];
    };
    CHECK(chosen("fsdp", "compiled") == "eager");        // blocks are compiled, the loss is not
    CHECK(chosen("torchtitan", "compiled") == "fused");  // like fsdp, which says otherwise
    CHECK(chosen("fsdp", "fused") == "fused");
    Framework torchtune = load_framework("torchtune", shipped());
    CHECK(choose_kernel(torchtune.operators, "chunked-loss"));
    CHECK(torchtune.operators.chosen[kLoss] == "chunked_logits");
    const std::string head =
        "schema: plansearch/framework/v1\nname: mine\nlike: fsdp\nimplementation:\n  words: ";
    CHECK(contains(error_of(head + "{compiler: {loss: eager}}\n"), "names no implementation"));
    CHECK(contains(error_of(head + "{compiled: {loss: slow}}\n"),
                   "no implementation 'slow' of loss"));
  }

  TEST_CASE("frameworks: every shipped file reads and says where its numbers come from") {
    const auto files = list_frameworks(shipped());
    CHECK(files.size() >= 10);
    std::set<std::string> names;
    for (const NamedFile& file : files) {
      CAPTURE(file.name);
      const Framework framework = load_framework(file.name, shipped());
      CHECK(framework.name == file.name);
      names.insert(framework.name);
      CHECK_FALSE(framework.provenance.empty());
      CHECK(framework.content_hash != 0);
      const bool half = framework.precision.contains(DataType::Fp16);
      CHECK((half || framework.precision.contains(DataType::Bf16)));
      for (const OverlapRule& rule : framework.overlap) {
        CHECK((rule.share >= 0.0 && rule.share <= 1.0));
      }
    }
    for (const char* name : {"megatron", "megatron-deepspeed", "deepspeed", "fsdp", "torchtitan",
                             "nanotron", "internevo", "maxtext"}) {
      CHECK(names.contains(name));
    }
  }

  TEST_CASE("frameworks: bytes per parameter as the frameworks keep them") {
    // parameter + gradient + main gradient + master + two moments, nothing sharded.
    const auto bytes = [](const char* name, DataType precision) {
      const Framework framework = load_framework(name, shipped());
      const PrecisionPolicy& p = framework.precision.at(precision);
      double sum = element_size(p.parameter).value() + 2 * element_size(p.moment).value();
      for (const auto& kept : {p.gradient, p.main_gradient, p.master}) {
        if (kept) sum += element_size(*kept).value();
      }
      return sum;
    };
    CHECK(bytes("megatron", DataType::Bf16) == 18);
    CHECK(bytes("megatron-deepspeed", DataType::Fp16) == 20);
    CHECK(bytes("deepspeed", DataType::Bf16) == 16);
    CHECK(bytes("fsdp", DataType::Bf16) == 16);
    CHECK(bytes("nanotron", DataType::Bf16) == 18);
  }

  TEST_CASE("frameworks: aliases and inheritance") {
    CHECK(load_framework("Megatron_LM", shipped()).name == "megatron");
    const Framework newer = load_framework("megatron-2026", shipped());
    const Framework base = load_framework("megatron", shipped());
    CHECK(newer.constants.grouped_efficiency == 1.0);
    CHECK(newer.constants.host_launch == Seconds(0));  // CUDA graphs of layers
    CHECK(newer.constants.host_step == base.constants.host_step);
    CHECK(newer.rules == base.rules);
    CHECK(newer.schedules == std::vector<std::string>{"1f1b", "interleaved"});
    CHECK(newer.optimizer_start == OptimizerStart::Together);
    CHECK(newer.precision == base.precision);
    CHECK(load_framework("zbpp", shipped()).optimizer_start == OptimizerStart::PostValidated);
    CHECK(load_framework("fsdp2", shipped()).offloads_between_kernels);  // like fsdp, save_on_cpu
    CHECK_FALSE(load_framework("trl", shipped()).offloads_between_kernels);
    CHECK_FALSE(load_framework("torchtune", shipped()).offloads_between_kernels);
  }

  TEST_CASE("frameworks: which all-to-all context parallelism each can run") {
    // The heads of Llama 3 70B: 64 query and 8 key/value heads of 128. With tp 4 a tensor rank
    // holds 8 / 4 = 2 key/value heads, which cp 2 divides and cp 8 does not; 64 / (4 x 8) = 2 query
    // heads are left per rank in both cases.
    const Network grouped = test::attention_block(8192, 64, 8, 128);
    const Network full = test::attention_block(8192, 64, 64, 128);
    const auto runs = [](const char* name, const Network& network, int tensor, int context,
                         ContextKind kind) {
      PlanDegrees plan;
      plan.tensor_out = tensor;
      plan.context = context;
      plan.context_kind = kind;
      plan.zero = ZeroStage::Parameters;
      if (std::string(name) == "nanotron") plan.zero = ZeroStage::Optimizer;
      if (std::string(name) == "maxtext") plan.recompute = Recompute::Full;  // always
      const auto refused =
          check_legality(plan, network, load_framework(name, shipped()), plan.devices());
      if (refused) CHECK(refused->obstacle == Obstacle::FrameworkForbids);
      return !refused.has_value();
    };
    for (const char* megatron : {"megatron", "megatron-2026"}) {
      CHECK(runs(megatron, grouped, 1, 8, ContextKind::Ulysses));
      CHECK(runs(megatron, grouped, 4, 2, ContextKind::Ulysses));
      CHECK_FALSE(runs(megatron, grouped, 4, 8, ContextKind::Ulysses));
      CHECK_FALSE(runs(megatron, grouped, 8, 2, ContextKind::Ulysses));
      CHECK_FALSE(runs(megatron, grouped, 1, 16, ContextKind::Ulysses));
      CHECK(runs(megatron, grouped, 4, 8, ContextKind::Ring));
      CHECK(runs(megatron, full, 4, 8, ContextKind::Ulysses));
    }
    // No grouped heads at all: 64 against 8.
    CHECK_FALSE(runs("megatron-deepspeed", grouped, 1, 8, ContextKind::Ulysses));
    CHECK(runs("megatron-deepspeed", grouped, 4, 1, ContextKind::Ulysses));
    CHECK(runs("megatron-deepspeed", full, 1, 8, ContextKind::Ulysses));
    CHECK_FALSE(runs("megatron-deepspeed", full, 4, 8, ContextKind::Ulysses));  // tp or cp
    // These repeat key/value heads instead.
    CHECK(runs("deepspeed", grouped, 1, 16, ContextKind::Ulysses));
    CHECK(runs("internevo", grouped, 4, 8, ContextKind::Ulysses));
    // These have no all-to-all over heads at all.
    for (const char* ring : {"torchtitan", "maxtext"}) {
      CHECK_FALSE(runs(ring, full, 1, 2, ContextKind::Ulysses));
      CHECK(runs(ring, full, 1, 2, ContextKind::Ring));
    }
    // This one cannot start a run with context parallelism.
    CHECK_FALSE(runs("nanotron", full, 1, 2, ContextKind::Ulysses));
    CHECK_FALSE(runs("nanotron", full, 1, 2, ContextKind::Ring));
  }

  TEST_CASE("frameworks: the annotated example of the documentation loads") {
    const std::string page = read_file(fs::path(PLANSEARCH_SOURCE_DIR) / "docs" / "frameworks.md");
    const std::string open = "```yaml\n";
    const std::size_t start = page.find(open) + open.size();
    const test::TemporaryDirectory directory;
    const fs::path path =
        directory.write("example.yaml", page.substr(start, page.find("```", start) - start));
    const Framework framework = load_framework(path.string(), shipped());
    CHECK(framework.layers == LayerDistribution::EvenInner);
    CHECK(framework.constants.host_launch.value() == doctest::Approx(25e-6));
    CHECK(framework.precision.at(DataType::Bf16).reduction == DataType::Bf16);
    CHECK_FALSE(framework.precision.contains(DataType::Nvfp4));
    for (const ConstantRow& constant : framework_constant_rows()) {
      CHECK(contains(page, "`" + std::string(constant.name) + "`"));
    }
    for (const RuleDescription& rule : framework_rules()) {
      CHECK(contains(page, "`" + std::string(rule.name) + "`"));
    }
  }

  TEST_CASE("frameworks: mistakes are located and explained") {
    const std::string head = "schema: plansearch/framework/v1\nname: broken\nlike: megatron\n";
    CHECK(error_of(head) == "no error");
    CHECK(contains(error_of(head + "constants: {host_lunch: 3 us}\n"), "host_launch"));
    CHECK(contains(error_of(head + "constants: {host_launch: 3}\n"), ":4:"));
    CHECK(contains(error_of(head + "constants: {host_launch: -3 us}\n"), "negative"));
    CHECK(contains(error_of(head + "overlap: {tensor_parallel: 1.5}\n"), "outside"));
    CHECK(contains(error_of(head + "overlap: {tensor: 0.5}\n"), "tensor"));
    CHECK(contains(error_of(head + "rank_order: [out, out]\n"), "twice"));
    CHECK(contains(error_of(head + "rank_order: [tp]\n"), "axes are"));
    CHECK(contains(error_of(head + "rules: [{rule: max-tensr, limit: 1, message: x}]\n"),
                   "max-tensor"));
    CHECK(contains(error_of(head + "rules: [{rule: max-tensor, message: x}]\n"), "limit"));
    CHECK(contains(error_of(head + "precision: {bf17: {matmul: bf16}}\n"), "bf17"));
    CHECK(contains(error_of(head + "precision: {bf16: {gradient: none, main_gradient: none}}\n"),
                   "neither"));
    CHECK(contains(error_of(head + "schedules: [1f2b]\n"), "the schedules are gpipe, 1f1b"));
    CHECK(contains(error_of(head + "optimizer_start: soon\n"), "per-device"));
    CHECK(contains(error_of(head + "colour: red\n"), "colour"));
    CHECK(contains(error_of("schema: plansearch/framework/v1\nname: broken\nlike: broken\n"),
                   "like"));
    CHECK(contains(error_of("schema: plansearch/framework/v1\nname: broken\n"), "rank_order"));
    CHECK(contains(error_of("schema: plansearch/profile/v1\nname: broken\n"), "schema"));
  }
}

}  // namespace
}  // namespace plansearch::io::framework_test
