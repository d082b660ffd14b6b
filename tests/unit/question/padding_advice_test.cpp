// SPDX-License-Identifier: Apache-2.0
// GPT-2 has 50,257 words, an odd number: FSDP takes the table as it is, Megatron-LM pads it
// (--make-vocab-size-divisible-by 128). 50,304 = 786 x 64.
#include "answer/make_report.hpp"

#include <doctest/doctest.h>

#include <string>
#include <variant>

#include "plansearch/load_problem.hpp"

namespace plansearch::padding_advice_test {
namespace {

std::string advice(const std::string& framework, const std::string& model, ZeroStage zero) {
  ProblemRequest request;
  request.hardware = "perlmutter";
  request.model = model;
  request.framework = framework;
  request.gpus = 4;
  request.batch = 32;
  const Problem problem = load_problem(request).problem;
  PlanDegrees degrees;
  degrees.data = 4;
  degrees.micro_batch = 8;
  degrees.zero = zero;
  degrees.recompute = Recompute::Full;
  const PlanEvaluator evaluator(problem);
  const auto plan = evaluator.expand(degrees);
  REQUIRE(std::holds_alternative<ParallelPlan>(plan));
  const Evaluation evaluation = evaluator.evaluate(std::get<ParallelPlan>(plan));
  const auto* beyond = std::get_if<InfeasiblePlan>(&evaluation);
  const Estimate& estimate = beyond == nullptr ? std::get<Estimate>(evaluation) : *beyond->estimate;
  return padding_advice(problem, std::get<ParallelPlan>(plan), estimate.step.total()).value_or("");
}

}  // namespace

TEST_SUITE("problem") {
  TEST_CASE("padding is advised where products pay for rows off 16 bytes") {
    const std::string text = advice("fsdp", "gpt2", ZeroStage::Parameters);
    CHECK(text.find("vocabulary 50,257") == 0);
    CHECK(text.find("head: logits") != std::string::npos);
    CHECK(text.find("padded to 50,304") != std::string::npos);
  }

  TEST_CASE("nothing is advised where the framework pads, or nothing is off") {
    CHECK(advice("megatron", "gpt2", ZeroStage::Optimizer).empty());
    CHECK(advice("maxtext", "gpt2", ZeroStage::Parameters).empty());  // XLA pads every product
    CHECK(advice("fsdp", "llama2-7b", ZeroStage::Parameters).empty());
  }
}

}  // namespace plansearch::padding_advice_test
