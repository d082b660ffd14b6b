// SPDX-License-Identifier: Apache-2.0
#include "evidence/validate/run_prediction.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "run_tables.hpp"
#include "support/schedules.hpp"

namespace plansearch::run_case_test {
namespace {

const ArchitectureTable& table() {
  static const ArchitectureTable kTable = test::shipped_architectures();
  return kTable;
}

Framework named(std::string_view name) {
  return test::shipped_profiles().framework(name);
}

RunCase case_of(const test::Cells& changes, std::string_view framework = "megatron") {
  return make_case(test::run_of(changes), table(), named(framework));
}

std::string refusal_of(const test::Cells& changes) {
  try {
    static_cast<void>(case_of(changes));
  } catch (const InputError& error) {
    CHECK(error.where().file.empty());
    return error.what();
  }
  return "expressible";
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("empty cells take their documented defaults") {
    const RunCase run = case_of({});
    CHECK(run.model.mlp.width == 8192);
    CHECK(run.model.attention.kv_heads == 16);
    CHECK(run.model.attention.head_size == 128);
    CHECK(run.model.embedding.vocab == 51200);
    CHECK(run.model.embedding.tied);
    CHECK(run.plan.micro_batches == 8);  // 64 / (4 x 2)
    CHECK(run.plan.zero == ZeroStage::Optimizer);
    CHECK_FALSE(run.question.degrees.has(Degree::Schedule));
    CHECK(run.batch_share == 1.0);
    CHECK(run.filled == std::vector<std::string>{"vocab 51200", "gpt-2 style"});
  }

  TEST_CASE(
      "a run that hid no exchange of experts is not priced as its framework hides on average") {
    CHECK_FALSE(case_of({}).question.overlap);
    CHECK(case_of({{"expert_overlap", "0"}}).question.overlap == "expert=0");
    // A row that says what it overlaps has said it of experts too.
    CHECK(case_of({{"expert_overlap", "0"}, {"overlap", "none"}}).question.overlap == "none");
  }

  TEST_CASE("what a source's configuration says fills empty cells, cells win") {
    const test::Cells ironwood{{"source", "AI-Hypercomputer/tpu-recipes Ironwood results"},
                               {"model", "Llama-3.1-70B"},
                               {"recompute", ""},
                               {"micro_batch", ""}};
    const RunCase filled = case_of(ironwood, "maxtext");
    CHECK(filled.question.degrees.get(Degree::Recompute) == static_cast<int>(Recompute::Selective));
    CHECK_FALSE(filled.open_micro_batch);   // MaxText does not accumulate
    CHECK(filled.plan.micro_batches == 2);  // one a stage
    test::Cells stated = ironwood;
    stated["recompute"] = "none";
    CHECK(case_of(stated, "maxtext").question.degrees.get(Degree::Recompute) ==
          static_cast<int>(Recompute::None));
    CHECK(case_of(stated).open_micro_batch);  // Megatron-LM does
  }

  TEST_CASE("a source's own configuration replaces what a table has otherwise") {
    const test::Cells adapters{{"source", "QwenLM/Qwen fine-tuning profile"},
                               {"lora_rank", "64"},
                               {"precision", "bf16"},
                               {"zero", ""},
                               {"sp", ""},
                               {"tp", "1"},
                               {"pp", "1"},
                               {"dp", "16"},
                               {"base_precision", "nf4"}};
    const RunCase run = case_of(adapters, "deepspeed");
    CHECK(run.question.base_precision == "int4");
    CHECK(run.question.precision == "fp16");
    CHECK(run.plan.zero == ZeroStage::Gradients);
    CHECK(std::count(run.filled.begin(), run.filled.end(), "base_precision int4, not nf4") == 1);
  }

  TEST_CASE("dp is what the other degrees leave") {
    CHECK(case_of({{"dp", ""}}).plan.data == 4);
    CHECK(case_of({{"dp", ""}, {"cp", "2"}}).plan.data == 2);
  }

  TEST_CASE("ranks that no degree accounts for go to the degrees that the row leaves empty") {
    const RunCase decided = case_of({{"cp", ""}, {"pp", "1"}});
    CHECK(decided.open_degrees == std::vector{Degree::Context});
    CHECK(decided.question.degrees.get(Degree::Context) == 2);
    const RunCase open = case_of({{"cp", ""}, {"tp", ""}, {"pp", "1"}});
    CHECK(open.open_degrees == std::vector{Degree::TensorOut, Degree::Context});
    CHECK(open.open_ranks == 4);
    // All said, or nothing left over: as it stands.
    CHECK(case_of({{"dp", "2"}}).open_degrees.empty());
    CHECK(case_of({{"tp", "4"}, {"cp", ""}}).open_degrees.empty());
    CHECK(case_of({{"dp", "3"}, {"cp", ""}, {"pp", "1"}}).open_degrees.empty());
  }

  TEST_CASE("a run without a plan is data parallel, and degrees are open where that does not fit") {
    const test::Cells blank{{"tp", ""}, {"pp", ""}, {"dp", ""}, {"micro_batch", ""}};
    const auto assumed = [&](const std::string& column, const std::string& value,
                             std::string_view framework = "megatron") {
      test::Cells cells = blank;
      cells[column] = value;
      return case_of(cells, framework).assumed_degrees;
    };
    CHECK(case_of(blank).plan.data == 16);
    CHECK(assumed("id", "a") == std::vector{Degree::TensorOut, Degree::Pipeline, Degree::Data});
    CHECK(assumed("pp", "2") == std::vector{Degree::TensorOut, Degree::Data});
    // Stated, or not known to have run, or sharded: as it stands.
    CHECK(assumed("micro_batch", "2").empty());
    CHECK(assumed("dp", "16").empty());
    CHECK(assumed("step_time_s", "").empty());
    CHECK(assumed("zero", "3", "fsdp").empty());
  }

  TEST_CASE("degrees whose product overflows are refused") {
    const std::string most = "1073741824";  // 2^30: the product of three wraps to 0 in 64 bits
    for (const char* data : {"", "1", "1073741824"}) {
      const test::Cells cells{{"dp", data}, {"tp", most}, {"pp", most}, {"cp", most}};
      CHECK(refusal_of(cells).find("beyond any machine") != std::string::npos);
    }
    // 2^31 devices: one more than an int holds.
    CHECK(refusal_of({{"dp", "32768"}, {"tp", "65536"}, {"pp", "1"}}).find("beyond any machine") !=
          std::string::npos);
  }

  TEST_CASE("switches that are not known follow the framework") {
    const test::Cells open{{"sp", ""}, {"zero", ""}, {"recompute", ""}};
    const RunCase megatron = case_of(open);
    CHECK(megatron.plan.sequence_parallel == SequenceParallel::On);
    CHECK(megatron.plan.zero == ZeroStage::Optimizer);
    const RunCase fsdp = case_of(open, "fsdp");
    CHECK(fsdp.plan.sequence_parallel == SequenceParallel::Off);
    CHECK(fsdp.plan.zero == ZeroStage::Parameters);
  }

  TEST_CASE("chunks and orders are pinned as flags would pin them") {
    const auto pinned = [](const test::Cells& changes, Degree degree) {
      return case_of(changes).question.degrees.get(degree);
    };
    CHECK(pinned({{"vpp", "3"}}, Degree::Chunks) == 3);
    CHECK_FALSE(pinned({{"vpp", "3"}}, Degree::Schedule));
    const int interleaved = static_cast<int>(test::kInterleaved);
    CHECK(pinned({{"vpp", ""}, {"schedule", "1F1B-I"}}, Degree::Schedule) == interleaved);
    CHECK_FALSE(pinned({{"vpp", ""}, {"schedule", "1F1B-I"}}, Degree::Chunks));
    // One chunk is no interleaving: the framework's own order, as the column says it.
    CHECK_FALSE(pinned({{"vpp", "1"}, {"schedule", "1F1B-I"}}, Degree::Schedule));
    const test::Cells one_stage{
        {"vpp", "3"}, {"pp", "1"}, {"dp", "8"}, {"schedule", "interleaved"}};
    CHECK_FALSE(pinned(one_stage, Degree::Chunks));
    CHECK_FALSE(pinned(one_stage, Degree::Schedule));
  }

  TEST_CASE("a partial last micro-batch is priced by its share") {
    const RunCase run = case_of({{"global_batch", "60"}});
    CHECK(run.plan.micro_batches == 8);
    CHECK(run.batch_share == doctest::Approx(60.0 / 64.0));
  }

  TEST_CASE("a published model of the same sizes fills its switches") {
    const RunCase run = case_of({{"mlp", "gated"},
                                 {"layers", "61"},
                                 {"hidden", "7168"},
                                 {"ffn_hidden", "18432"},
                                 {"heads", "128"},
                                 {"moe_experts", "256"},
                                 {"moe_topk", "8"},
                                 {"moe_ffn", "2048"},
                                 {"vocab", "129280"},
                                 {"model", "DeepSeekV3"}});
    REQUIRE(run.model.moe);
    CHECK(run.model.moe->leading_dense == 3);
    CHECK(run.model.moe->shared_width == 2048);
    CHECK(run.model.moe->experts == 256);
    CHECK(run.model.mtp_layers == 1);
    REQUIRE(run.model.attention.latent);
    CHECK(run.model.attention.latent->kv_rank == 512);
  }

  TEST_CASE("what cannot be expressed says why") {
    CHECK(refusal_of({{"mlp", "kan"}}) == "mlp \"kan\" is none of gelu, gated, squared-relu");
    CHECK(refusal_of({{"attention", "linear"}}) == "attention: 'linear' is none of flash, unfused");
    CHECK(refusal_of({{"precision", "int8"}}) ==
          "precision: 'int8' is none of fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4");
    CHECK(refusal_of({{"recompute", "some"}}) ==
          "recompute \"some\" is not one of none, selective, full");
    CHECK(refusal_of({{"moe_experts", "8"}}) == "experts per token (moe_topk) are unknown");
    CHECK(refusal_of({{"kv_heads", "5"}}).find("kv_heads") != std::string::npos);
  }
}

}  // namespace plansearch::run_case_test
