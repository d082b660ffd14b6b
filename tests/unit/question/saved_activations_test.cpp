// SPDX-License-Identifier: Apache-2.0
// What one layer keeps of 2,048 tokens, against the tensors that autograd saved: transformers 5.23
// and torch 2.15 on the meta device (tools/witness/activations.py), bytes per token. torchtitan's
// layers were written out after its sources (docs/activations.md).
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "plansearch/evaluator.hpp"
#include "plansearch/load_problem.hpp"
#include "support/toy_class.hpp"

namespace plansearch::saved_activations_test {
namespace {

struct Measured {
  const char* framework;
  const char* model;
  const char* block;
  double bytes;  ///< per token
  const char* attention = "flash";
};

double kept_bytes(const Measured& row, LayerModules again = {}) {
  constexpr int kTokens = 2048;
  ProblemRequest request;
  request.hardware = "dgx-h100";
  request.model = row.model;
  request.framework = row.framework;
  request.gpus = 8;
  request.batch = 8;
  request.seq_len = kTokens;
  request.attention = row.attention;
  PlanDegrees plan;
  plan.data = 8;
  plan.zero = ZeroStage::Parameters;
  if (again.any()) {
    plan.recompute = Recompute::Selective;
    plan.modules = static_cast<std::uint8_t>(again.to_ulong());
  }
  const test::ToyClass one(load_problem(request).problem, plan);
  return one.profile(row.block).memory.saved.value() / kTokens;
}

constexpr Measured kRows[] = {
    {"fsdp", "llama3-8b", "decoder", 168072.0},
    {"fsdp", "qwen2-7b", "decoder", 196728.0},
    {"fsdp", "qwen3-8b", "decoder", 162088.0},
    {"fsdp", "gemma-7b", "decoder", 254024.0},
    {"fsdp", "mistral-7b", "decoder", 168072.0},
    {"fsdp", "phi-2", "decoder", 71816.0},
    {"fsdp", "pythia-6.9b", "decoder", 139408.0},  // the value is a view of query, key, value
    {"fsdp", "opt-6.7b", "decoder", 106640.0},     // ReLU keeps its result
    {"fsdp", "falcon-7b", "decoder", 109604.0},
    {"fsdp", "falcon-40b", "decoder", 246288.0},
    {"fsdp", "mixtral-8x7b", "decoder-experts", 315644.0},
    {"fsdp", "qwen3-30b-a3b", "decoder-experts", 159820.2},
    {"fsdp", "gpt-oss-20b", "decoder-experts", 249272.1},
    {"fsdp", "deepseek-v2-lite", "decoder-experts", 191396.1},
    {"fsdp", "deepseek-v3", "decoder-experts", 673652.5},
    {"fsdp", "bamba-9b", "decoder-mamba-mlp", 213772.0},
    {"fsdp", "llama3-8b", "decoder", 573448.0, "unfused"},
    {"fsdp", "bloom-7b1", "decoder", 524304.0, "unfused"},
    {"torchtitan", "llama3-8b", "decoder", 168072.0},
    {"torchtitan", "llama3-70b", "decoder", 332040.0},
    {"torchtitan", "mixtral-8x7b", "decoder-experts", 332000.0},
    {"torchtitan", "qwen3-30b-a3b", "decoder-experts", 192504.1},
};

TEST_SUITE("unit") {
  TEST_CASE("a layer keeps what torch keeps of it, family by family") {
    for (const Measured& row : kRows) {
      CAPTURE(row.framework);
      CAPTURE(row.model);
      CHECK(kept_bytes(row) == doctest::Approx(row.bytes).epsilon(0.02));
    }
  }

  // tools/witness/recompute_modules.py: layers of Megatron-LM, torch 2.15 on the meta device.
  TEST_CASE("parts that run again keep what torch keeps of them") {
    const LayerModules core = bit_of(LayerModule::CoreAttention);
    const LayerModules norm = bit_of(LayerModule::LayerNorm), mlp = bit_of(LayerModule::Mlp);
    const LayerModules up = bit_of(LayerModule::MlaUpProjection), moe = bit_of(LayerModule::Moe);
    const LayerModules act = bit_of(LayerModule::MoeActivation);
    const LayerModules shared = bit_of(LayerModule::SharedExperts);
    struct Part {
      const char* model;
      const char* block;
      LayerModules again;
      double bytes;
    };
    const Part parts[] = {
        {"llama3-8b", "decoder", {}, 139400},
        {"llama3-8b", "decoder", core, 139272},
        {"llama3-8b", "decoder", mlp, 45188},  // the norm in front is in its kernel
        {"llama3-8b", "decoder", core | mlp, 45060},
        {"qwen3-30b-a3b", "decoder-experts", {}, 115128},
        {"qwen3-30b-a3b", "decoder-experts", norm, 111028},  // the one before the experts alone
        {"qwen3-30b-a3b", "decoder-experts", act, 102840},
        {"qwen3-30b-a3b", "decoder-experts", moe, 44312},
        {"qwen3-30b-a3b", "decoder-experts", norm | act, 98740},
        {"qwen3-30b-a3b", "decoder-experts", norm | moe, 40212},
        {"deepseek-v3", "decoder-experts", {}, 457392},
        {"deepseek-v3", "decoder-experts", norm, 428712},
        {"deepseek-v3", "decoder-experts", up, 322344},
        {"deepseek-v3", "decoder-experts", act, 424624},
        {"deepseek-v3", "decoder-experts", shared, 445104},
        {"deepseek-v3", "decoder-experts", moe, 229904},
        {"deepseek-v3", "decoder-experts", norm | up | act | shared, 248608},
    };
    for (const Part& part : parts) {
      CAPTURE(part.model);
      CAPTURE(to_text(part.again, ","));
      CHECK(kept_bytes({"megatron", part.model, part.block, 0.0}, part.again) ==
            doctest::Approx(part.bytes).epsilon(0.005));
    }
  }

  // By hand from WeightedSwiGLUFunction and RouterGatingLinearFunction of Megatron-LM, bytes per
  // token: two norm inputs and their statistics, the norms' outputs, query, key, value, context and
  // log-sum-exp; K copies of the token, K gates and values of width f, K activations; fp32 scores,
  // probabilities and map of E experts and K indices.
  TEST_CASE("Megatron's fused weighted SwiGLU keeps its input and the weights alone") {
    const double h = 4096, f = 14336, heads = 32, d = 128, kv = 8, experts = 8, k = 2;
    const double norms = 2 * (2 * h + 4) + 2 * (2 * h);
    const double attention = 2 * (heads + 2 * kv) * d + 2 * heads * d + 4 * heads;
    const double mlp = k * (2 * h + 2 * 2 * f + 2 * f);
    const double router = 3 * 4 * experts + 8 * k;
    CHECK(kept_bytes({"megatron", "mixtral-8x7b", "decoder-experts", 0.0}) ==
          doctest::Approx(norms + attention + mlp + router).epsilon(1e-9));
  }

  TEST_CASE("gradients that the only micro-batch makes take the place of activations") {
    // GPT-2 XL on eight devices, one sequence each: 1.56e9 fp32 gradients over 8 ranks are 0.78 GB,
    // less than the activations of a micro-batch; with two micro-batches they are there as well.
    ProblemRequest request;
    request.hardware = "dgx-h100";
    request.model = "gpt2-xl";
    request.framework = "fsdp";
    request.gpus = 8;
    const auto gradients = [&](std::int64_t batch) {
      request.batch = batch;
      const Problem problem = load_problem(request).problem;
      PlanDegrees plan;
      plan.data = 8;
      plan.zero = ZeroStage::Parameters;
      plan.micro_batches = static_cast<int>(batch / 8);
      const Evaluation answer = PlanEvaluator(problem).evaluate(plan);
      return std::get<Estimate>(answer).memory.gradients;
    };
    CHECK(gradients(8) == Bytes(0));
    CHECK(gradients(16).value() == doctest::Approx(4.0 * 1557611200 / 8).epsilon(1e-3));
  }
}

}  // namespace
}  // namespace plansearch::saved_activations_test
