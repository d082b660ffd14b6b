// SPDX-License-Identifier: Apache-2.0
// verl: what the overrides of verl.trainer.main_ppo say together, for the worker that updates the
// policy: by Megatron-LM, or by FSDP 2 with Ulysses.
// Source: volcengine/verl@b178a3cd (2026-01-29) verl/workers/config/engine.py: McoreEngineConfig,
// FSDPEngineConfig; verl/workers/fsdp_workers.py: create_device_mesh
#include <algorithm>

#include "exporters/fact.hpp"
#include "exporters/readers.hpp"

namespace plansearch::exporters {
namespace {

// Products and sums of two keys, whichever is read last.
void read_batch(R r, V /*value*/) {
  r.asked.batch = r.number("mini_batch", 256) * r.number("answers", 1);
}
void read_length(R r, V /*value*/) {
  r.asked.seq_len = r.number("prompt_length", 512) + r.number("answer_length", 512);
}
void read_processes(R r, V /*value*/) {
  r.asked.gpus = count_in(Value(r.number("ray_nodes", 1) * r.number("ray_gpus", 8)));
}

/// Micro-batches that are filled by tokens hold as many sequences of full length as fit.
void settle_micro_batch(Reading& r) {
  if (r.on("filled_by_tokens")) {
    const std::int64_t length = r.asked.seq_len.value_or(1024);
    const std::int64_t fit = r.number("most_tokens", 16384) * r.degrees.context / length;
    r.degrees.micro_batch = static_cast<int>(std::clamp<std::int64_t>(fit, 1, 1 << 20));
    r.notes.emplace_back(
        "micro-batches are filled by tokens (use_dynamic_bsz): priced with sequences of full "
        "length");
  }
  if (r.degrees.micro_batch == 0)
    throw Unsettled("nothing says ppo_micro_batch_size_per_gpu", "--micro-batch N");
}

}  // namespace

// clang-format off
Facts verl_facts() {
  return {
      {"mini_batch", {S::GlobalBatch, S::MicroBatches, s(D::Data), S::Gpus},
       [](H h) { return Value(h.problem.global_batch); }, read_batch},
      // Answers to a prompt, each a sequence of the batch.
      {"answers", {S::GlobalBatch}, [](H) { return Value(1); }, read_batch},
      {"prompt_length", {S::SequenceLength}, [](H h) { return Value(h.problem.seq_len / 2); }, read_length},
      {"answer_length", {S::SequenceLength}, [](H h) { return Value(h.problem.seq_len - h.problem.seq_len / 2); }, read_length},
      {"ray_nodes", {S::Gpus}, [](H h) { return Value(h.nodes()); }, read_processes},
      {"ray_gpus", {S::Gpus}, [](H h) { return Value(h.gpus_per_node()); }, read_processes},
      {"filled_by_tokens", {s(D::MicroBatch)}, [](H) { return Value(false); }},
      {"most_tokens", {}},
      {"worker", {s(D::Zero)}, [](H) { return Value("fsdp2"); }},
      {"fsdp_size", {s(D::ShardGroup)},
       [](H h) { return Value(h.shard_ranks() == h.degrees.data ? -1 : h.shard_ranks() * h.degrees.context); }},
  };
}
// clang-format on

void start_verl(Reading& r) {
  start_megatron_plan(r);
  r.degrees.micro_batch = 0;
  r.degrees.expert_tensor = 0;  // the tensor degree
}

void settle_verl(Reading& r) {
  settle_micro_batch(r);
  settle_megatron_plan(r);
}

void start_verl_fsdp(Reading& r) {
  start_megatron_plan(r);
  r.degrees.micro_batch = 0;
}

void settle_verl_fsdp(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (r.word("worker") == "megatron")
    throw Unsettled("actor.strategy megatron: its keys begin with actor_rollout_ref.actor.megatron",
                    "--from verl");
  if (r.number("adapter_rank", 0, 0) > 0) {
    r.asked.lora_rank = whole_number(r.fact("adapter_rank"));
    const bool all = !r.knows("adapted_modules");
    read_adapter_modules(r, all ? Value("all-linear") : r.fact("adapted_modules"));
  }
  if (d.context == 1) {
    d.context_kind = ContextKind::Ring;
  } else {
    r.asked.framework = "any";
    r.notes.emplace_back("FSDP alone has no context parallelism: priced as any");
  }
  settle_ranks(r);
  if (r.number("fsdp_size", -1, -1) > 0) {
    const int group = count_in(r.fact("fsdp_size")) / d.context;
    if (group > 0 && group < d.data) d.shard_group = group;
  }
  settle_micro_batch(r);
  settle_batch(r);
}

}  // namespace plansearch::exporters
