// SPDX-License-Identifier: Apache-2.0
// Who decides a value: flag > plan > model's training block > framework > profile > default. What
// the shipped files say is read from them by eye: gpt2-xl trains with 512 sequences of 1,024 tokens
// (models/gpt2-xl.yaml), perlmutter has 1,536 nodes of 4 (hardware_profiles/perlmutter.yaml).
#include "plansearch/load_problem.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <optional>

#include "base/hash.hpp"
#include "plansearch/error.hpp"
#include "support/source_directory.hpp"

namespace plansearch::load_problem_test {
namespace {

ProblemRequest request() {
  ProblemRequest request;
  request.hardware = "perlmutter";
  request.model = "gpt2-xl";
  return request;
}

std::string setting(const ResolvedQuestion& asked, const std::string& key) {
  for (const SettingReport& s : asked.settings) {
    if (s.key == key) return s.value + " (" + s.origin + ")";
  }
  return "absent";
}

std::string hint_of(const ProblemRequest& wrong) {
  try {
    (void)load_problem(wrong);
  } catch (const InputError& error) {
    return error.hint();
  }
  return "accepted";
}

}  // namespace

TEST_SUITE("problem") {
  TEST_CASE("what is left open comes from the model, then from defaults") {
    const ResolvedQuestion asked = load_problem(request());
    CHECK(asked.problem.global_batch == 512);
    CHECK(asked.problem.seq_len == 1024);
    CHECK(asked.problem.gpus == 6144);
    CHECK_FALSE(asked.gpus);
    CHECK(setting(asked, "batch") == "512 (model)");
    CHECK(setting(asked, "seq_len") == "1024 (model)");
    CHECK(setting(asked, "framework") == "megatron (default)");
    CHECK(setting(asked, "precision") == "bf16 (default)");
    CHECK(setting(asked, "rank_order") == "tp-cp-dp-pp (framework)");
    CHECK(setting(asked, "mem_reserve") == "absent");
  }

  TEST_CASE(
      "how a run is implemented: flag over framework, kernels that are not named run eagerly") {
    const auto chosen = [](const ResolvedQuestion& asked, MemoryBound kind) {
      return asked.problem.framework->operators.chosen[static_cast<std::size_t>(kind)];
    };
    ProblemRequest r = request();
    r.kernels = "flash2 fused-norm";
    const ResolvedQuestion asked = load_problem(r);
    CHECK(setting(asked, "kernels") == "flash2 fused-norm (flag)");
    CHECK(asked.problem.framework->attention_kernel == "flash2");
    CHECK(chosen(asked, MemoryBound::RmsNorm) == "fused");
    CHECK(chosen(asked, MemoryBound::GatedActivation) == "eager");
    CHECK(asked.problem.framework->implementation.gate == GatedActivation::Separate);
    r.implementation = "te";
    const ResolvedQuestion both = load_problem(r);
    CHECK(chosen(both, MemoryBound::LayerNorm) == "fused");
    CHECK(chosen(both, MemoryBound::Softmax) == "fused");
    CHECK(both.problem.framework->implementation.gate == GatedActivation::OneKernel);
    r.kernels = "flash2 fast-norm";
    CHECK(hint_of(r).find("fused-norm") != std::string::npos);
  }

  TEST_CASE("the format of main gradients is kept and reduced") {
    ProblemRequest r = request();
    r.main_grads = "bf16";
    const ResolvedQuestion asked = load_problem(r);
    const PrecisionPolicy& policy = asked.problem.framework->precision.at(DataType::Bf16);
    CHECK(policy.main_gradient == DataType::Bf16);
    CHECK(policy.reduction == DataType::Bf16);
    r.main_grads = "int8";
    CHECK(hint_of(r) == "format in which gradients are added up and reduced");
  }

  TEST_CASE("overlap of single kinds leaves the others as they are") {
    ProblemRequest r = request();
    r.overlap = "param=0";
    const ResolvedQuestion asked = load_problem(r);
    const auto hides = [&](Overlap kind) {
      return asked.problem.framework->overlap[static_cast<std::size_t>(kind)].hides();
    };
    CHECK(!hides(Overlap::ParameterGather));
    CHECK(hides(Overlap::GradientReduction));
    r.overlap = "param=2";
    CHECK(hint_of(r).find("param=0,grad=1") != std::string::npos);
  }

  TEST_CASE("a flag wins over the model, and a plan is told from a flag") {
    ProblemRequest r = request();
    r.nodes = 3;
    r.batch = 96;
    r.seq_len = 256;
    r.from_plan = {"seq_len"};
    r.framework = "fsdp";
    r.mem_reserve = "2 GiB";
    const ResolvedQuestion asked = load_problem(r);
    CHECK(asked.problem.gpus == 12);
    CHECK(asked.problem.memory_reserve == Bytes(2.0 * 1024 * 1024 * 1024));
    CHECK(setting(asked, "batch") == "96 (flag)");
    CHECK(setting(asked, "seq_len") == "256 (plan)");
    CHECK(setting(asked, "framework") == "fsdp (flag)");
  }

  TEST_CASE("without a batch of the model, two million tokens rounded down to a power of two") {
    ProblemRequest rotary = request();
    rotary.model = "llama3-8b";
    ProblemFiles files = read_problem_files(rotary);
    ShippedModel model = *files.model;
    model.description.training.global_batch = 0;
    files.model = std::make_shared<const ShippedModel>(model);
    const auto batch_of = [&](std::optional<std::int64_t> seq_len) {
      ProblemRequest r = request();
      r.seq_len = seq_len;
      return setting(resolve_question(r, files), "batch");
    };
    // 2^21 = 2,097,152 tokens
    CHECK(batch_of(std::nullopt) == "256 (default)");  // of 8,192 tokens
    CHECK(batch_of(1500) == "1024 (default)");         // 1,398 sequences
    CHECK(batch_of(1000) == "2048 (default)");         // 2,097
  }

  TEST_CASE("names answer to aliases, and a miss to its neighbours") {
    ProblemRequest r = request();
    r.hardware = "EOS";
    CHECK(load_problem(r).problem.cluster->name == "dgx-h100");
    r.hardware = "perlmuter";
    CHECK(hint_of(r).find("perlmutter") != std::string::npos);
    r = request();
    r.model = "gpt2-xk";
    CHECK(hint_of(r).find("gpt2-xl") != std::string::npos);
    r = request();
    r.target = "torchtitan";
    r.framework = "megatron";
    CHECK(load_problem(r).problem.framework->name == "megatron");
    r.framework.clear();
    CHECK(load_problem(r).problem.framework->name == "torchtitan");
  }

  TEST_CASE("files are read once for many questions") {
    const ProblemFiles files = read_problem_files(request());
    ProblemRequest shorter = request();
    shorter.hardware = "no such machine";  // not looked at any more
    shorter.seq_len = 512;
    shorter.optimizer = "sgd";
    const ResolvedQuestion asked = resolve_question(shorter, files);
    CHECK(asked.problem.cluster == files.cluster);
    CHECK(asked.problem.seq_len == 512);
    CHECK(asked.problem.model->training.optimizer == OptimizerKind::Sgd);
    CHECK(files.model->description.training.optimizer == OptimizerKind::Adam);
  }

  // zb-h2 is zero-bubble's alone, whose devices go on with the next step: its bubble is that of Qi et
  // al. (arXiv 2401.10241, section 2.2) only so. InternEvo runs zb-h1, torchtitan zb-v, and both wait.
  TEST_CASE("an order ends its step as every program does that runs it") {
    const auto start_under = [](const char* order) {
      ProblemRequest asked = request();
      asked.degrees.pin(Degree::Pipeline, 4);
      asked.degrees.pin(Degree::Schedule, static_cast<int>(*find_schedule(order)));
      return load_problem(asked).problem.framework->optimizer_start;
    };
    CHECK(start_under("zb-h2") == OptimizerStart::PostValidated);
    for (const char* waits : {"1f1b", "gpipe", "zb-h1", "zb-v"}) {
      CHECK(start_under(waits) == OptimizerStart::Together);
    }
  }

  TEST_CASE("a plan made for another text of the model is noted") {
    ProblemRequest r = request();
    r.content_hashes["model"] = hash_text(shipped_data().model("gpt2-xl").content_hash);
    CHECK(load_problem(r).notes.empty());
    r.content_hashes["model"] = hash_text(1);
    REQUIRE(load_problem(r).notes.size() == 1);
    CHECK(load_problem(r).notes.front() ==
          "note: model gpt2-xl has changed since the plan was written");
  }

  TEST_CASE("a directory without profiles is refused") {
    CHECK_THROWS_AS(ShippedData(PLANSEARCH_SOURCE_DIR "/docs"), InputError);
    CHECK(find_shipped_data(PLANSEARCH_SOURCE_DIR).directory() == PLANSEARCH_SOURCE_DIR);
  }
}

}  // namespace plansearch::load_problem_test
