// SPDX-License-Identifier: Apache-2.0
// Trainable parameters as peft 0.21 counts them with transformers 5.23
// (get_nb_trainable_parameters) for the same rank and modules.
#include <doctest/doctest.h>

#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/transformer_builder.hpp"

namespace plansearch::question_adapters_test {
namespace {

ProblemRequest request_for(const char* model, std::int64_t rank, const char* targets) {
  ProblemRequest request;
  request.hardware = "dgx-h100";
  request.model = model;
  request.framework = "fsdp";
  request.gpus = 8;
  request.batch = 8;
  request.lora_rank = rank;
  if (targets != nullptr) request.lora_targets = targets;
  return request;
}

std::int64_t trained(const char* model, std::int64_t rank, const char* targets) {
  return trainable_parameter_count(
      *load_problem(request_for(model, rank, targets)).problem.network);
}

TEST_SUITE("unit") {
  TEST_CASE("adapters have as many parameters as in peft") {
    CHECK(trained("llama3-8b", 16, nullptr) == 6815744);  // q_proj, v_proj
    CHECK(trained("llama3-8b", 16, "all-linear") == 41943040);
    CHECK(trained("qwen3-8b", 32, "q,k,v,o") == 30670848);
    CHECK(trained("qwen3-8b", 8, "all-linear") == 21823488);
    CHECK(trained("gpt2-xl", 16, "qkv") == 4915200);  // c_attn
    CHECK(trained("gpt2-xl", 8, "all-linear") == 9830400);
    CHECK(trained("phi-2", 8, "all-linear") == 11796480);
    CHECK(trained("pythia-70m", 8, "all-linear") == 393216);
    CHECK(trained("mixtral-8x7b", 8, "q,v") == 3407872);
  }

  TEST_CASE("only adapters have gradients and optimizer states") {
    // fsdp: fp32 gradients and two fp32 moments, over 8 ranks; two micro-batches, so that the
    // gradients are there at the peak.
    ProblemRequest request = request_for("llama3-8b", 16, nullptr);
    request.batch = 16;
    PlanDegrees plan;
    plan.data = 8;
    plan.zero = ZeroStage::Parameters;
    plan.micro_batches = 2;
    const Evaluation answer = PlanEvaluator(load_problem(request).problem).evaluate(plan);
    const MemoryBreakdown& memory = std::get<Estimate>(answer).memory;
    CHECK(memory.gradients.value() == doctest::Approx(4.0 * 6815744 / 8));
    CHECK(memory.optimizer.value() == doctest::Approx(8.0 * 6815744 / 8));
    // Plain FSDP loads all shards in fp32; with fully_shard weights that are not trained are bf16.
    CHECK(memory.parameters.value() == doctest::Approx(4.0 * 8037076992 / 8));
    request.framework = "fsdp2";
    const Evaluation sharded = PlanEvaluator(load_problem(request).problem).evaluate(plan);
    CHECK(std::get<Estimate>(sharded).memory.parameters.value() ==
          doctest::Approx((4.0 * 6815744 + 2.0 * (8037076992 - 6815744)) / 8));
  }

  TEST_CASE("targets without a rank, and words the model does not have, are refused") {
    ProblemRequest request = request_for("gpt2-xl", 8, "q,v");
    CHECK_THROWS_WITH_AS(static_cast<void>(load_problem(request)),
                         doctest::Contains("no module 'q'"), InputError);
    request.lora_rank.reset();
    CHECK_THROWS_WITH_AS(static_cast<void>(load_problem(request)),
                         doctest::Contains("without --lora-rank"), InputError);
  }
}

}  // namespace
}  // namespace plansearch::question_adapters_test
