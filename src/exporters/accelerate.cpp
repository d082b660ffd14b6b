// SPDX-License-Identifier: Apache-2.0
// accelerate: the file of `accelerate launch --config_file`, FSDP 2 with tensor and context
// parallelism.
//
// Keys and rules: huggingface/accelerate@16cb6eb8 (2026-07-24)
//   src/accelerate/commands/config/config_args.py: ClusterConfig (unknown keys are errors)
//   src/accelerate/commands/launch.py: launch_command_parser (fsdp_*, parallelism_config_*)
//   src/accelerate/parallelism_config.py: ParallelismConfig.__post_init__, _get_mesh (order)
#include <fmt/format.h>

#include "exporters/exporter.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;

/// mixed_precision: no, fp16, bf16.
std::string mixed_precision(const ExportRequest& h) {
  return h.problem.precision == DataType::Fp32 ? "no" : std::string(to_text(h.problem.precision));
}

// clang-format off
std::vector<Key> keys() {
  return {
      {"compute_environment", {}, [](const ExportRequest&) { return Value("LOCAL_MACHINE"); }},
      {"distributed_type", {s(D::Zero)}, [](const ExportRequest&) { return Value("FSDP"); }},
      {"mixed_precision", {S::Precision}, value_from<mixed_precision>},
      {"num_machines", {S::Gpus}, value_from<&ExportRequest::nodes>},
      {"num_processes", {S::Gpus}, of_problem<&Problem::gpus>},
      {"machine_rank", {}, constant<0>},
      {"rdzv_backend", {}, [](const ExportRequest&) { return Value("static"); }},
      {"same_network", {}, constant<true>},
      {"main_training_function", {}, [](const ExportRequest&) { return Value("main"); }},
      {"fsdp_config.fsdp_version", {s(D::Zero)}, constant<2>},
      {"fsdp_config.fsdp_reshard_after_forward", {s(D::Zero)},
       [](const ExportRequest& h) { return Value(h.degrees.zero == ZeroStage::Parameters); }},
      {"fsdp_config.fsdp_auto_wrap_policy", {s(D::Zero)},
       [](const ExportRequest&) { return Value("TRANSFORMER_BASED_WRAP"); }},
      {"fsdp_config.fsdp_activation_checkpointing", {s(D::Recompute)},
       [](const ExportRequest& h) { return Value(h.degrees.recompute == Recompute::Full); }},
      {"fsdp_config.fsdp_offload_params", {s(D::Zero)}, constant<false>},
      {"fsdp_config.fsdp_cpu_ram_efficient_loading", {}, constant<true>},
      {"fsdp_config.fsdp_state_dict_type", {}, [](const ExportRequest&) { return Value("SHARDED_STATE_DICT"); }},
      {"parallelism_config.parallelism_config_dp_replicate_size", {s(D::ShardGroup), s(D::Data)},
       [](const ExportRequest& h) { return Value(h.degrees.data / h.shard_ranks()); }},
      {"parallelism_config.parallelism_config_dp_shard_size", {s(D::ShardGroup), s(D::Data)},
       value_from<&ExportRequest::shard_ranks>},
      {"parallelism_config.parallelism_config_tp_size", {s(D::TensorOut)}, degree<&PlanDegrees::tensor_out>},
      {"parallelism_config.parallelism_config_cp_size", {s(D::Context)}, degree<&PlanDegrees::context>},
      {"parallelism_config.parallelism_config_cp_backend", {s(D::Context)},
       [](const ExportRequest& h) { return h.degrees.context > 1 ? Value("torch") : Value(); }},
      {"parallelism_config.parallelism_config_cp_comm_strategy", {s(D::ContextKind)},
       [](const ExportRequest& h) { return h.degrees.context > 1 ? Value("alltoall") : Value(); }},
  };
}
// clang-format on

std::vector<Accepts> accepts() {
  return {{s(D::ContextKind), {"ring"}},
          {s(D::Zero), {"2", "3"}},
          {s(D::MicroBatch), {}, By::Script},
          {s(D::Recompute), {"none", "full"}},
          {S::MicroBatches, {}, By::Script},
          {S::GlobalBatch, {}, By::Script},
          {S::SequenceLength, {}, By::Script},
          {S::Precision, {"bf16", "fp16", "fp32"}},
          {S::Optimizer, {}, By::Script},
          {S::Attention, {}, By::Script},
          {S::RankOrder, {"tp-cp-dp"}, By::Target},
          {S::Model, {}, By::Script},
          {setting_of(plansearch::Setting::Implementation), {}, By::Script},
          {setting_of(plansearch::Setting::Kernels), {}, By::Script},
          {setting_of(plansearch::Setting::LoraRank), {}, By::Script},
          {setting_of(plansearch::Setting::LoraTargets), {}, By::Script},
          {setting_of(plansearch::Setting::BasePrecision), {}, By::Script},
          {setting_of(plansearch::Setting::OptimizerStates), {}, By::Script},
          {setting_of(Overlap::GradientReduction), {kOn}, By::Target},
          {setting_of(Overlap::ParameterGather), {kOn}, By::Target},
          {setting_of(Overlap::TensorParallel), {kOff}, By::Target},
          {setting_of(Overlap::ContextRing), {}, By::Target}};
}

/// Accelerator() reads it; transformers' Trainer sets its own (notes).
std::optional<std::string> accumulation(const ExportRequest& h) {
  return std::to_string(h.degrees.micro_batches);
}

Launch launch() {
  return {.starter = Starter::Accelerate,
          .script = "train.py",
          .arguments = "\"${TRAIN_ARGS[@]}\"",
          .environment = {{"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", accumulation}}};
}

}  // namespace

Exporter accelerate_exporter() {
  return {
      .title = "configuration of accelerate launch",
      .checked = "huggingface/accelerate@16cb6eb8 (2026-07-24)",
      .framework = "",
      .accepts = accepts(),
      .documents = {{.keys = keys(), .write = write_yaml, .file = "accelerate.yaml"}},
      .launch = launch(),
      // ParallelismConfig.__post_init__
      .conflicts =
          {{"tensor or context parallelism with replicas that share nothing (shard_group 1)",
            [](const ExportRequest& h) {
              return h.shard_ranks() == 1 && h.degrees.data > 1 &&
                     (h.degrees.tensor_out > 1 || h.degrees.context > 1);
            }}},
      .notes = [](const ExportRequest& h) -> std::vector<std::string> {
        return {
            fmt::format("with transformers' Trainer: gradient_accumulation_steps={}, "
                        "per_device_train_batch_size={}; it reads no variable",
                        h.degrees.micro_batches, h.degrees.micro_batch)};
      },
  };
}

}  // namespace plansearch::exporters
