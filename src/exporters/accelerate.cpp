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
#include "exporters/offload_words.hpp"

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
      {"distributed_type", {s(D::Zero)}, [](const ExportRequest&) { return Value("FSDP"); },
       together},
      {"mixed_precision", {S::Precision}, value_from<mixed_precision>,
       [](Reading& r, const Value& v) { r.asked.precision = text_in(v) == "no" ? "fp32" : text_in(v); }},
      {"num_machines", {S::Gpus}, value_from<&ExportRequest::nodes>,
       together},
      {"num_processes", {S::Gpus}, [](const ExportRequest& h) { return Value(h.problem.gpus); },
       [](Reading& r, const Value& v) { r.asked.gpus = count_in(v); }},
      {"machine_rank", {}, constant<0>},
      {"rdzv_backend", {}, [](const ExportRequest&) { return Value("static"); }},
      {"same_network", {}, constant<true>},
      {"main_training_function", {}, [](const ExportRequest&) { return Value("main"); }},
      {"fsdp_config.fsdp_version", {s(D::Zero)}, constant<2>,
       together},
      {"fsdp_config.fsdp_reshard_after_forward", {s(D::Zero)},
       [](const ExportRequest& h) { return Value(h.degrees.zero == ZeroStage::Parameters); },
       [](Reading& r, const Value& v) { r.degrees.zero = is_on(v) && text_in(Value(v.dump())) != "\"SHARD_GRAD_OP\"" ? ZeroStage::Parameters : ZeroStage::Gradients; }},
      {"fsdp_config.fsdp_auto_wrap_policy", {s(D::Zero)},
       [](const ExportRequest&) { return Value("TRANSFORMER_BASED_WRAP"); },
       together},
      {"fsdp_config.fsdp_activation_checkpointing", {s(D::Recompute)},
       [](const ExportRequest& h) { return Value(h.degrees.recompute == Recompute::Full); },
       [](Reading& r, const Value& v) { r.degrees.recompute = is_on(v) ? Recompute::Full : Recompute::None; }},
      {"fsdp_config.fsdp_offload_params", {setting_of(Degree::Offload)},
       [](const ExportRequest& h) { return Value(host_tensors(h.degrees.on_host).parameters); },
       read_shard_offload},
      {"fsdp_config.fsdp_cpu_ram_efficient_loading", {}, constant<true>},
      {"fsdp_config.fsdp_state_dict_type", {}, [](const ExportRequest&) { return Value("SHARDED_STATE_DICT"); }},
      // FSDP 1 says both in one word.
      only_read("fsdp_config.fsdp_sharding_strategy", together),
      {"parallelism_config.parallelism_config_dp_replicate_size", {s(D::ShardGroup), s(D::Data)},
       [](const ExportRequest& h) { return Value(h.degrees.data / h.shard_ranks()); },
       together},
      {"parallelism_config.parallelism_config_dp_shard_size", {s(D::ShardGroup), s(D::Data)},
       value_from<&ExportRequest::shard_ranks>,
       together},
      {"parallelism_config.parallelism_config_tp_size", {s(D::TensorOut)}, degree<&PlanDegrees::tensor_out>},
      {"parallelism_config.parallelism_config_cp_size", {s(D::Context)}, degree<&PlanDegrees::context>},
      {"parallelism_config.parallelism_config_cp_backend", {s(D::Context)},
       [](const ExportRequest& h) { return h.degrees.context > 1 ? Value("torch") : Value(); },
       together},
      {"parallelism_config.parallelism_config_cp_comm_strategy", {s(D::ContextKind)},
       [](const ExportRequest& h) { return h.degrees.context > 1 ? Value("alltoall") : Value(); },
       [](Reading& r, const Value& v) { r.degrees.context_kind = text_in(v) == "allgather" ? ContextKind::AllGather : ContextKind::Ring; }},
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
          {setting_of(Degree::Offload), shard_offloads()},
          {S::Checkpoints, {}, By::Script},
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

/// config_args.py: ClusterConfig; utils/dataclasses.py: FullyShardedDataParallelPlugin.
void start(Reading& r) {
  r.asked.framework = "fsdp";
  r.asked.precision = "fp32";
  r.degrees.data = 0;
  r.degrees.micro_batches = 0;
  r.degrees.zero = ZeroStage::Parameters;
  r.open.insert(Degree::MicroBatch);
}

void settle(Reading& r) {
  PlanDegrees& d = r.degrees;
  const std::string type =
      r.says("distributed_type") ? text_in(r.value("distributed_type")) : std::string("FSDP");
  if (type == "MULTI_GPU" || type == "NO") {
    d.zero = ZeroStage::None;
    r.asked.framework = "ddp";
  } else if (type != "FSDP") {
    throw Unsettled("distributed_type " + type + ": its own file says the plan",
                    "import the file that it names");
  }
  if (r.says("fsdp_config.fsdp_sharding_strategy")) {
    const std::string word = text_in(r.value("fsdp_config.fsdp_sharding_strategy"));
    if (word == "SHARD_GRAD_OP" || word == "2") d.zero = ZeroStage::Gradients;
    if (word == "NO_SHARD" || word == "3") d.zero = ZeroStage::None;
    if (word.starts_with("HYBRID") || word == "4")
      d.shard_group = r.gpus() / (r.says("num_machines") ? count_in(r.value("num_machines")) : 1);
  }
  constexpr std::string_view kSizes = "parallelism_config.parallelism_config_dp_";
  const auto size = [&](const char* name) {
    const std::string key = std::string(kSizes) + name;
    return r.says(key) ? count_in(r.value(key)) : 1;
  };
  if (r.says(std::string(kSizes) + "shard_size")) {
    d.data = size("replicate_size") * size("shard_size");
    if (size("replicate_size") > 1) d.shard_group = size("shard_size");
  }
  settle_ranks(r);
  settle_batch(r);
  r.notes.emplace_back("micro-batch, batch, sequence length and network are the script's");
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
      .start = start,
      .settle = settle,
  };
}

}  // namespace plansearch::exporters
