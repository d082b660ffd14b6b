// SPDX-License-Identifier: Apache-2.0
// The readers of accelerate, axolotl and LLaMA-Factory.
// Source: axolotl-ai-cloud/axolotl@067b021c (2026-07-24) config.py, training.py:
// AxolotlInputConfig; hiyouga/LLaMA-Factory@ff6d4d12 (2026-08-18)
// src/llamafactory/hparams/*_args.py; huggingface/ transformers v5.24 training_args.py:
// _process_fsdp_args (fsdp, fsdp_config); huggingface/ accelerate@16cb6eb8 (2026-07-24)
// src/accelerate/utils/dataclasses.py: FullyShardedDataParallelPlugin
#include <fmt/format.h>

#include <algorithm>

#include "base/names.hpp"
#include "exporters/readers.hpp"

namespace plansearch::exporters {
namespace {

/// FSDP 1 has words of its own; 2 reshards unless it is told not to.
void settle_sharding(Reading& r, bool sharded, const std::string& words) {
  if (!sharded) return;
  r.degrees.zero = ZeroStage::Parameters;
  const bool kept = r.knows("reshards") && !r.on("reshards");
  if (kept || canonical_name(words).find("shard-grad-op") != std::string::npos)
    r.degrees.zero = ZeroStage::Gradients;
}

void settle_groups(Reading& r) {
  PlanDegrees& d = r.degrees;
  const int sharded = r.count("fsdp_ranks", 0), copies = r.count("fsdp_replicas", 0);
  if (r.gpus() == 0 && sharded > 0) d.data = sharded * std::max(copies, 1);
  settle_ranks(r);
  if (d.zero == ZeroStage::None) return;
  const int group = sharded > 0 ? sharded : d.data / std::max(copies, 1);
  if (group > 0 && group < d.data) d.shard_group = group;
}

void read_tables(Reading& r) {
  if (r.knows("trained_tables")) read_trained_tables(r, r.fact("trained_tables"));
}

void settle_axolotl_adapters(Reading& r) {
  if (!r.knows("adapter_kind")) return;
  if (!r.knows("adapter_rank"))
    throw Unsettled("an adapter without lora_r, its rank", "--lora-rank N");
  r.asked.lora_rank = whole_number(r.fact("adapter_rank"), 1, 1 << 16);
  if (r.word("adapter_kind") == "qlora" && !r.asked.base_precision) r.asked.base_precision = "nf4";
  if (r.on("adapts_all"))
    r.asked.lora_targets = "all-linear";
  else if (r.knows("modules_by_name"))
    read_adapter_modules(r, r.fact("modules_by_name"));
  read_tables(r);
}

void settle_llama_adapters(Reading& r) {
  const std::string type = r.word("tuning", "lora");
  if (type == "full") return;
  if (type != "lora")
    throw Unsettled(fmt::format("finetuning_type {} has no price", type), "lora or full");
  r.asked.lora_rank = r.number("adapter_rank", 8, 1, 1 << 16);
  if (r.knows("adapted_modules")) {
    read_adapter_modules(r, r.fact("adapted_modules"));
  } else {
    r.asked.lora_targets = "all-linear";
  }
  read_tables(r);
}

/// States are sharded as DeepSpeed's own file says, which may be read beside the trainer's.
void refuse_deepspeed(const Reading& r) {
  if (r.knows("deepspeed_file") && !r.says("zero_optimization.stage"))
    throw Unsettled("deepspeed: the file that it names says how states are sharded",
                    "import it too: the trainer's file and DeepSpeed's, in any order");
}

}  // namespace

void start_trainer(Reading& r) {
  r.degrees.data = 0;
  r.degrees.micro_batches = 1;
}

void settle_axolotl(Reading& r) {
  PlanDegrees& d = r.degrees;
  refuse_deepspeed(r);
  if (r.asked.task == "dpo") d.micro_batch *= 2;
  const auto begins = [](const auto& pair) { return pair.first.starts_with("fsdp_config."); };
  settle_sharding(r, r.knows("fsdp_words") || std::ranges::any_of(r.said, begins),
                  r.fact("fsdp_words").dump() + r.fact("fsdp_strategy").dump());
  settle_axolotl_adapters(r);
  if (d.tensor_out > 1 || d.context > 1) {
    r.asked.framework = "any";
    r.notes.emplace_back("the Trainer alone has no tensor or context parallelism: priced as any");
  }
  if (r.knows("whole_batch"))
    d.micro_batches = std::max(count_in(r.fact("whole_batch")) / d.micro_batch, 1);
  // TF32 is how fp32 runs where it is on.
  if (r.asked.precision == "fp32" && r.on("tf32")) r.asked.precision = "tf32";
  settle_groups(r);
  settle_batch(r);
}

void settle_llama_factory(Reading& r) {
  if (r.asked.task == "dpo") r.degrees.micro_batch *= 2;
  refuse_deepspeed(r);
  settle_sharding(r, r.on("fsdp_words"), r.fact("fsdp_words").dump());
  settle_llama_adapters(r);
  settle_ranks(r);
  settle_batch(r);
}

void start_accelerate(Reading& r) {
  start_megatron_plan(r);
  r.open.insert(Degree::MicroBatch);
}

void settle_accelerate(Reading& r) {
  PlanDegrees& d = r.degrees;
  const std::string type = r.word("distributed_type", "FSDP");
  if (type == "DEEPSPEED" && r.says("deepspeed_config.zero_stage")) {
    r.asked.framework = "deepspeed";
  } else if (type == "MULTI_GPU" || type == "NO") {
    d.zero = ZeroStage::None;
    r.asked.framework = "ddp";
  } else if (type != "FSDP") {
    throw Unsettled("distributed_type " + type + ": its own file says the plan",
                    "import the file that it names");
  }
  // FSDP 1 says in one word what is sharded, and among whom.
  const std::string word = r.word("fsdp_strategy");
  if (word == "SHARD_GRAD_OP" || word == "2") d.zero = ZeroStage::Gradients;
  if (word == "NO_SHARD" || word == "3") d.zero = ZeroStage::None;
  if (word.starts_with("HYBRID") || word == "4") d.shard_group = r.gpus() / r.count("nodes", 1);
  if (r.knows("shard_ranks")) {
    const int copies = r.count("shard_replicas", 1);
    const int shards = count_in(r.fact("shard_ranks"));
    d.data = copies * shards;
    if (copies > 1) d.shard_group = shards;
  }
  settle_ranks(r);
  settle_batch(r);
  r.notes.emplace_back("micro-batch, batch, sequence length and network are the script's");
}

}  // namespace plansearch::exporters
