// SPDX-License-Identifier: Apache-2.0
// Launch files of programs that fine-tune, of verl and of MaxText: their own defaults, by hand from
// the sources that src/exporters names.
#include <doctest/doctest.h>

#include <algorithm>

#include "importers/read_configuration.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch::importers {
namespace {

const exporters::Targets& targets() {
  static const exporters::Targets kTargets(shipped_data().directory());
  return kTargets;
}

exporters::Reading read(const std::string& name, const std::string& text, int gpus,
                        const std::string& target, int node_gpus = 8) {
  Typed typed;
  typed.target = target;
  if (gpus > 0) typed.request.gpus = gpus;
  typed.node_gpus = node_gpus;
  return read_configuration(targets(), find_keys(targets(), {{text, name}}, {}), typed).reading;
}

TEST_CASE("axolotl: absent keys are its own defaults") {
  const auto plain =
      read("a.yaml", "micro_batch_size: 2\ngradient_accumulation_steps: 4\n", 8, "axolotl");
  CHECK(plain.degrees.zero == ZeroStage::None);
  CHECK(plain.degrees.recompute == Recompute::None);
  CHECK(plain.asked.seq_len == 512);
  CHECK(plain.asked.precision == "bf16");
  CHECK(plain.asked.batch == 64);
  CHECK_FALSE(plain.asked.lora_rank);
  // FSDP 2 reshards unless it is told not to; what no size says is sharded.
  const std::string fsdp =
      "micro_batch_size: 1\nfsdp_version: 2\nfsdp_config:\n  offload_params: false\n";
  CHECK(read("a.yaml", fsdp, 16, "axolotl").degrees.zero == ZeroStage::Parameters);
  CHECK(read("a.yaml", fsdp + "  reshard_after_forward: false\n", 16, "axolotl").degrees.zero ==
        ZeroStage::Gradients);
  const auto copies = read("a.yaml", fsdp + "dp_replicate_size: 4\n", 16, "axolotl").degrees;
  CHECK(copies.data == 16);
  CHECK(copies.shard_group == 4);
  const auto qlora =
      read("a.yaml", "micro_batch_size: 1\nadapter: qlora\nlora_r: 32\nlora_target_linear: true\n",
           1, "axolotl");
  CHECK(qlora.asked.lora_rank == 32);
  CHECK(qlora.asked.lora_targets == "all-linear");
  CHECK(qlora.asked.base_precision == "nf4");
  CHECK_THROWS_AS(read("a.yaml", "micro_batch_size: 1\nadapter: lora\n", 1, "axolotl"), InputError);
  CHECK_THROWS_AS(read("a.yaml", "micro_batch_size: 1\ndeepspeed: z3.json\n", 8, "axolotl"),
                  InputError);
}

TEST_CASE("packed documents: a file says that they are, not how long") {
  const auto notes = [](const char* name, const std::string& text, const char* target) {
    const auto found = read(name, text, 8, target).notes;
    return std::count_if(found.begin(), found.end(), [](const std::string& note) {
      return note.find("--packing LENGTHS") != std::string::npos;
    });
  };
  CHECK(notes("a.yaml", "micro_batch_size: 1\nsample_packing: true\n", "axolotl") == 1);
  CHECK(notes("a.yaml", "micro_batch_size: 1\nsample_packing: false\n", "axolotl") == 0);
  CHECK(notes("l.yaml", "stage: sft\nneat_packing: true\n", "llama-factory") == 1);
  // Without neat_packing documents see each other: one document a sequence.
  CHECK(notes("l.yaml", "stage: sft\npacking: true\n", "llama-factory") == 0);
  CHECK(notes("s.sh", "megatron sft --packing true\n", "ms-swift") == 1);
}

TEST_CASE("LLaMA-Factory: absent keys are its own defaults") {
  const auto plain = read("l.yaml", "stage: sft\ncutoff_len: 1024\n", 8, "llama-factory");
  CHECK(plain.degrees.recompute == Recompute::Full);
  CHECK(plain.degrees.micro_batch == 8);
  CHECK(plain.asked.batch == 64);
  CHECK(plain.asked.precision == "fp32");
  CHECK(plain.asked.lora_rank == 8);
  CHECK(plain.asked.lora_targets == "all-linear");
  const auto full =
      read("l.yaml",
           "finetuning_type: full\nbf16: true\ndisable_gradient_checkpointing: true\nfsdp: "
           "shard_grad_op auto_wrap\n",
           8, "llama-factory");
  CHECK_FALSE(full.asked.lora_rank);
  CHECK(full.degrees.zero == ZeroStage::Gradients);
  CHECK(full.degrees.recompute == Recompute::None);
  CHECK_THROWS_AS(read("l.yaml", "finetuning_type: freeze\n", 8, "llama-factory"), InputError);
}

TEST_CASE("ms-swift: absent arguments are its own defaults") {
  const auto plain = read(
      "s.sh", "NPROC_PER_NODE=8 megatron sft --tensor_model_parallel_size 2 --max_length 4096\n", 8,
      "ms-swift");
  CHECK(plain.degrees.data == 4);
  CHECK(plain.degrees.zero == ZeroStage::Optimizer);
  CHECK(plain.degrees.recompute == Recompute::Selective);
  CHECK(plain.degrees.micro_batch == 1);
  CHECK(plain.degrees.sequence_parallel == SequenceParallel::Off);
  CHECK(plain.asked.batch == 16);
  CHECK(plain.asked.overlap == "grad=0,param=0");
  const auto own =
      read("s.sh",
           "megatron sft --use_distributed_optimizer false --recompute_granularity none "
           "--tuner_type lora --target_modules linear_qkv linear_fc2\n",
           8, "ms-swift");
  CHECK(own.degrees.zero == ZeroStage::None);
  CHECK(own.degrees.recompute == Recompute::None);
  CHECK(own.asked.lora_rank == 8);
  CHECK(own.asked.lora_targets == "q,k,v,down");
}

TEST_CASE("verl: a step is one update of the policy") {
  const std::string start =
      "python3 -m verl.trainer.main_ppo --config-path=. --config-name='ppo_megatron_trainer'";
  const auto plain =
      read("v.sh",
           start +
               " actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2"
               " actor_rollout_ref.rollout.n=5 trainer.nnodes=2"
               " +actor_rollout_ref.actor.megatron.override_transformer_config.recompute_"
               "granularity=full actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4\n",
           0, "verl");
  CHECK(plain.asked.gpus == 16);
  CHECK(plain.asked.batch == 1280);  // 256 prompts, 5 answers each
  CHECK(plain.asked.seq_len == 1024);
  CHECK(plain.degrees.data == 4);
  CHECK(plain.degrees.sequence_parallel == SequenceParallel::On);
  CHECK(plain.degrees.zero == ZeroStage::Optimizer);
  CHECK(plain.degrees.recompute == Recompute::Full);
  CHECK_FALSE(plain.asked.main_grads);
  // The last part of a path is the network, whatever stands before it.
  const auto named =
      read("v.sh",
           "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=$HOME/m/Qwen3-8B "
           "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=$(((1 + 1) * 2)) "
           "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=1\n",
           8, "verl");
  CHECK(named.named == "Qwen3-8B");
  CHECK(named.degrees.micro_batch == 4);
  // 16,384 tokens in sequences of 4,096.
  const auto filled = read(
      "v.sh",
      "python3 -m verl.trainer.main_ppo data.max_prompt_length=1024 data.max_response_length=3072 "
      "actor_rollout_ref.actor.strategy=fsdp2 actor_rollout_ref.actor.use_dynamic_bsz=True "
      "actor_rollout_ref.actor.fsdp_config.fsdp_size=4 "
      "actor_rollout_ref.model.enable_gradient_checkpointing=True\n",
      8, "verl-fsdp");
  CHECK(filled.degrees.micro_batch == 4);
  CHECK(filled.degrees.zero == ZeroStage::Parameters);
  CHECK(filled.degrees.shard_group == 4);
}

TEST_CASE("MaxText: an axis of -1 takes what is left") {
  const std::string start =
      "python3 -m maxtext.trainers.pre_train.train base.yml model_name=llama2-7b ";
  const auto sharded =
      read("m.sh", start + "per_device_batch_size=4 ici_tensor_parallelism=4\n", 32, "maxtext");
  CHECK(sharded.degrees.tensor_out == 4);
  CHECK(sharded.degrees.data == 8);
  CHECK(sharded.degrees.zero == ZeroStage::Parameters);
  CHECK(sharded.asked.batch == 128);
  CHECK(sharded.degrees.micro_batch == 16);
  CHECK(sharded.named == "llama2-7b");
  CHECK_FALSE(sharded.has_model);
  // Between nodes of GPUs the data axis is left: replicas of groups of one node.
  const auto replicas =
      read("m.sh", start + "hardware=gpu per_device_batch_size=1 gradient_accumulation_steps=2\n",
           32, "maxtext");
  CHECK(replicas.degrees.data == 32);
  CHECK(replicas.degrees.shard_group == 8);
  CHECK(replicas.degrees.micro_batches == 2);
  CHECK(replicas.asked.batch == 64);
  const auto stages = read(
      "m.sh",
      "python3 train.py per_device_batch_size=2 ici_pipeline_parallelism=4 ici_fsdp_parallelism=1 "
      "ici_data_parallelism=2 shard_optimizer_over_data=true num_layers_per_pipeline_stage=2 "
      "num_pipeline_microbatches=8 remat_policy=minimal\n",
      8, "maxtext");
  CHECK(stages.degrees.pipeline == 4);
  CHECK(stages.degrees.chunks == 2);  // 16 layers of base.yml
  CHECK(stages.degrees.micro_batches == 8);
  CHECK(stages.degrees.micro_batch == 1);
  CHECK(stages.degrees.zero == ZeroStage::Optimizer);
  CHECK(stages.degrees.recompute == Recompute::Selective);
  CHECK_THROWS_AS(read("m.sh", start + "ici_tensor_parallelism=3\n", 32, "maxtext"), InputError);
  CHECK_THROWS_AS(read("m.sh", start, 0, "maxtext"), InputError);
}

}  // namespace
}  // namespace plansearch::importers
