// SPDX-License-Identifier: Apache-2.0
// Optimizers by their usual names, documents that share a sequence, preferences with a frozen
// reference. Expected values: moments of the distributions, masks counted pair by pair, the same
// plan without the task.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "io/document/file.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/load_problem.hpp"
#include "question/training_task.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::training_task_test {
namespace {

ProblemRequest request_for(const char* framework) {
  ProblemRequest request;
  request.hardware = "dgx-h100";
  request.model = "llama3.2-1b";
  request.framework = framework;
  request.gpus = 8;
  request.batch = 16;
  request.seq_len = 4096;
  return request;
}

PlanDegrees data_parallel(ZeroStage zero) {
  PlanDegrees plan;
  plan.data = 8;
  plan.zero = zero;
  plan.micro_batch = 2;
  plan.micro_batches = 1;
  return plan;
}

Estimate price(const ProblemRequest& request, const PlanDegrees& plan) {
  return std::get<Estimate>(PlanEvaluator(load_problem(request).problem).evaluate(plan));
}

std::string message_of(const ProblemRequest& request) {
  try {
    static_cast<void>(load_problem(request));
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

struct Moments {
  double mean = 0.0;
  double square = 0.0;
};

Moments moments_of(const std::string& text, std::int64_t tokens = std::int64_t{1} << 40) {
  Moments moments;
  double sum = 0.0;
  for (const DocumentLength& one : read_documents(text, tokens)) {
    const auto length = static_cast<double>(one.tokens);
    sum += one.share;
    moments.mean += one.share * length;
    moments.square += one.share * length * length;
  }
  return {moments.mean / sum, moments.square / sum};
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("names of optimizers say what is kept, in how many bits and where") {
    const auto plain = [](const char* word) {
      ProblemRequest request;
      request.optimizer = word;
      return with_plain_optimizer(request);
    };
    CHECK(plain("adamw").optimizer == "adam");
    CHECK_FALSE(plain("adamw").optimizer_states);
    CHECK(plain("adamw-8bit").optimizer_states == "int8");
    CHECK(plain("lion-8bit").optimizer == "lion");
    CHECK(plain("paged-adamw").paged_states == "1");
    CHECK_FALSE(plain("adamw").paged_states);
    CHECK(plain("paged-adamw-8bit").optimizer_states == "int8");
    ProblemRequest beside;
    beside.optimizer = "paged-adamw-8bit";
    beside.optimizer_states = "bf16";
    beside.paged_states = "0";
    CHECK(with_plain_optimizer(beside).optimizer_states == "bf16");
    CHECK(with_plain_optimizer(beside).paged_states == "0");
  }

  TEST_CASE("Muon is refused by name where a framework does not run it") {
    ProblemRequest request = request_for("nanotron");
    request.optimizer = "muon";
    const std::string refused = message_of(request);
    CHECK(refused.find("--optimizer muon: nanotron does not have it") != std::string::npos);
    request.optimizer.reset();
    request.model = "kimi-k2";  // whose pretraining had it
    CHECK(message_of(request).find("nanotron does not have it") != std::string::npos);
    request.framework = "hf-trainer";
    request.task = "lora";
    CHECK_FALSE(load_problem(request).problem.framework->updates_matrices);
    request.optimizer = "muon";
    CHECK(message_of(request).find("hf-trainer does not have it") != std::string::npos);
    const auto why = [](const char* framework, const PlanDegrees& plan) -> std::string {
      ProblemRequest asked = request_for(framework);
      asked.optimizer = "muon";
      const auto result = PlanEvaluator(load_problem(asked).problem).evaluate(plan);
      const auto* infeasible = std::get_if<InfeasiblePlan>(&result);
      return infeasible == nullptr ? std::string() : infeasible->reason.detail;
    };
    CHECK(why("deepspeed", data_parallel(ZeroStage::Parameters)).find("reduce_scatter") !=
          std::string::npos);
    CHECK(why("deepspeed", data_parallel(ZeroStage::Gradients)).empty());
    CHECK(why("megatron", data_parallel(ZeroStage::Gradients)).find("Megatron-FSDP") !=
          std::string::npos);
    PlanDegrees tensor = data_parallel(ZeroStage::Parameters);
    tensor.data = 4;
    tensor.tensor_out = 2;
    tensor.micro_batches = 2;
    tensor.sequence_parallel = SequenceParallel::On;
    CHECK(why("torchtitan", tensor).find("DistMuon") != std::string::npos);
  }

  TEST_CASE("Lion keeps one moment, as SGD with momentum does") {
    ProblemRequest request = request_for("hf-trainer");
    const auto states = [&](const char* optimizer) {
      request.optimizer = optimizer;
      return price(request, data_parallel(ZeroStage::Parameters)).memory.optimizer;
    };
    CHECK(states("lion") == states("sgd"));
    CHECK(states("lion") < states("adamw"));
    CHECK(states("adamw") == states("adam"));
    CHECK(states("adamw-8bit") < states("adam"));
  }

  TEST_CASE("lengths of documents: moments of the distributions") {
    CHECK(moments_of("512").mean == doctest::Approx(512.0));
    CHECK(moments_of("512x3+2048").mean == doctest::Approx((3.0 * 512 + 2048) / 4));
    const Moments exponential = moments_of("exponential:1000");
    CHECK(exponential.mean == doctest::Approx(1000.0).epsilon(2e-3));
    CHECK(exponential.square == doctest::Approx(2e6).epsilon(2e-3));
    const Moments lognormal = moments_of("lognormal:1000:0.8");
    CHECK(lognormal.mean == doctest::Approx(1000.0).epsilon(2e-3));
    CHECK(lognormal.square == doctest::Approx(1e6 * std::exp(0.64)).epsilon(2e-3));
    // Longer ones are cut.
    CHECK(moments_of("exponential:1000", 100).mean < 100.0);
    CHECK(moments_of("4096", 1024).mean == 1024.0);
  }

  TEST_CASE("lengths of a file, and texts that are none") {
    const test::TemporaryDirectory folder;
    const std::string good = (folder.path() / "lengths.csv").string();
    io::write_file(good, "length,count\n100,3\n500,1\n");
    CHECK(moments_of(good).mean == doctest::Approx(200.0));
    const std::string bad = (folder.path() / "bad.csv").string();
    io::write_file(bad, "length\n100\nmany\n");
    try {
      static_cast<void>(read_documents(bad, 1024));
      FAIL("no error");
    } catch (const InputError& error) {
      CHECK(error.where().line == 3);
    }
    for (const char* text : {"", "0", "-5", "512x", "12x3x4", "exponential", "exponential:0",
                             "lognormal:1000", "lognormal:1000:9", "no-such-file"}) {
      CHECK_THROWS_AS(static_cast<void>(read_documents(text, 1024)), InputError);
    }
  }

  TEST_CASE("packed documents take less attention, never more; whole ones the same") {
    const PlanDegrees plan = data_parallel(ZeroStage::Parameters);
    ProblemRequest request = request_for("hf-trainer");
    const Estimate whole = price(request, plan);
    request.packing = "4096";
    CHECK(price(request, plan).step.total().value() ==
          doctest::Approx(whole.step.total().value()).epsilon(1e-12));
    double last = whole.step.total().value();
    for (const char* length : {"2048", "512x9+2048", "512", "64"}) {
      request.packing = length;
      const Estimate packed = price(request, plan);
      CHECK(packed.step.total().value() < last);
      CHECK(packed.memory.activations == whole.memory.activations);
      last = packed.step.total().value();
    }
  }

  TEST_CASE("preferences: a forward pass more, and frozen weights beside trained ones") {
    const PlanDegrees plan = data_parallel(ZeroStage::Parameters);
    ProblemRequest request = request_for("hf-trainer");
    const ResolvedQuestion once = load_problem(request);
    const Estimate alone = price(request, plan);
    request.task = "dpo";
    const ResolvedQuestion pairs = load_problem(request);
    CHECK(pairs.problem.network->forwards == 2);
    const Estimate both = price(request, plan);
    const auto count = static_cast<double>(parameter_count(*once.problem.network));
    // A second network in bf16, cut over eight ranks as the first.
    CHECK((both.memory.parameters - alone.memory.parameters).value() ==
          doctest::Approx(2.0 * count / 8).epsilon(1e-9));
    CHECK(both.memory.activations == alone.memory.activations);
    CHECK(both.memory.optimizer == alone.memory.optimizer);
    const double forward = model_forward_flops(*once.problem.network).value();
    CHECK((model_training_flops(*pairs.problem.network).value() -
           model_training_flops(*once.problem.network).value()) ==
          doctest::Approx(forward).epsilon(1e-9));
    CHECK(both.step.compute > alone.step.compute * 1.2);

    request.lora_rank = 16;
    const Estimate adapted = price(request, plan);
    request.task = "sft";
    CHECK(adapted.memory.parameters == price(request, plan).memory.parameters);
    CHECK(adapted.step.compute > price(request, plan).step.compute);
  }

  TEST_CASE("pairs are whole in a micro-batch, and need a trainer") {
    ProblemRequest request = request_for("hf-trainer");
    request.task = "dpo";
    PlanDegrees odd = data_parallel(ZeroStage::Parameters);
    odd.micro_batch = 1;
    odd.micro_batches = 2;
    const Evaluation answer = PlanEvaluator(load_problem(request).problem).evaluate(odd);
    CHECK(std::get<InfeasiblePlan>(answer).reason.detail.find("pairs") != std::string::npos);
    request.framework = "megatron";
    CHECK(message_of(request).find("megatron has no trainer for pairs") != std::string::npos);
    request.framework = "hf-trainer";
    request.model = "bert-large";
    request.seq_len = 512;
    CHECK(message_of(request).find("predicts no next token") != std::string::npos);
  }

  TEST_CASE("the task of adapters has a rank where nobody says one") {
    ProblemRequest request = request_for("hf-trainer");
    request.task = "lora";
    CHECK(load_problem(request).problem.model->training.lora->rank == kUsualAdapterRank);
    request.lora_rank = 4;
    CHECK(load_problem(request).problem.model->training.lora->rank == 4);
  }

  TEST_CASE("states without room leave, and come back at the rate of the host link") {
    ProblemRequest request = request_for("hf-trainer");
    const PlanDegrees plan = data_parallel(ZeroStage::None);
    const Estimate held = price(request, plan);
    request.optimizer = "paged-adamw";
    // With room for all of them nothing changes.
    CHECK(price(request, plan).step.total() == held.step.total());
    CHECK(price(request, plan).memory == held.memory);
    // Room for half of them.
    const Bytes room = held.memory.total() - held.memory.optimizer * 0.5;
    const Bytes all = load_problem(request).problem.cluster->accelerator.memory;
    request.mem_reserve = fmt::format("{:.6f} GiB", (all - room).value() / 1073741824.0);
    request.mem_risk = 0.5;
    const Estimate paged = price(request, plan);
    const Bytes gone = held.memory.optimizer - paged.memory.optimizer;
    CHECK(gone.value() == doctest::Approx(held.memory.optimizer.value() / 2).epsilon(1e-6));
    CHECK((paged.memory.total() + gone).value() == doctest::Approx(held.memory.total().value()));
    CHECK(paged.host_memory.value() == doctest::Approx(8.0 * gone.value()));
    const Host host = load_problem(request).problem.cluster->host.value();
    CHECK((paged.step.optimizer - held.step.optimizer).value() ==
          doctest::Approx((gone / host.from_device + gone / host.to_device).value()));
  }
}

}  // namespace plansearch::training_task_test
