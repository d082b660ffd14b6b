// SPDX-License-Identifier: Apache-2.0
// torchtitan 0.2, the last version that reads TOML files.
//
// Keys and rules: pytorch/torchtitan v0.2.2 (2026-02-20)
//   torchtitan/config/job_config.py: Training, Parallelism, ActivationCheckpoint
//   torchtitan/config/manager.py: ConfigManager._dict_to_dataclass (unknown keys are errors)
//   torchtitan/distributed/pipeline_parallel.py: build_pipeline_schedule
#include <fmt/format.h>

#include "exporters/offload_words.hpp"
#include "exporters/torchtitan_keys.hpp"
#include "exporters/torchtitan_reading.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;

/// Names of the modules of every virtual stage.
Value module_names(const ExportRequest& h) {
  if (h.degrees.pipeline == 1) return {};
  Value stages = Value::array();
  std::int64_t layer = 0;
  for (const StageContent& content : h.stages) {
    Value names = Value::array();
    if (content.embedding) names.push_back("tok_embeddings");
    for (std::int64_t i = 0; i < content.layers; ++i) {
      names.push_back(fmt::format("layers.{}", layer++));
    }
    if (content.head) {
      names.push_back("norm");
      names.push_back("output");
    }
    stages.push_back(std::move(names));
  }
  return stages;
}

std::string checkpoint_mode(const ExportRequest& h) {
  return value_of(s(D::Recompute), h);
}

// clang-format off
std::vector<Key> training_keys() {
  return {
      {"model.name", {S::Model},
       [](const ExportRequest& h) { return registered(h, &RegisteredModel::flavor, &RegisteredModel::module); },
       together},
      {"model.flavor", {S::Model},
       [](const ExportRequest& h) { return registered(h, &RegisteredModel::flavor, &RegisteredModel::flavor); },
       together},
      {"training.seq_len", {S::SequenceLength}, kSequence},
      // With a pipeline the batch of a rank is that of all its micro-batches.
      {"training.local_batch_size", {s(D::MicroBatch), S::MicroBatches},
       [](const ExportRequest& h) {
         const bool pipeline = h.degrees.pipeline > 1;
         return Value(std::int64_t{1} * h.degrees.micro_batch * (pipeline ? h.degrees.micro_batches : 1));
       },
       together},
      {"training.global_batch_size", {S::GlobalBatch, S::MicroBatches}, kBatch, together},
      // Names of earlier versions.
      only_read("training.batch_size", together),
      only_read("parallelism.pipeline_parallel_layers_per_stage", together),
      {"training.enable_cpu_offload", {setting_of(Degree::Offload)},
       if_on_host<&HostTensors::parameters>,
       read_shard_offload},
      {"training.mixed_precision_param", {S::Precision},
       [](const ExportRequest& h) { return Value(torch_name(h.problem.precision)); },
       read_torch_precision},
      {"parallelism.data_parallel_replicate_degree", {s(D::ShardGroup), s(D::Data), S::Gpus},
       [](const ExportRequest& h) { return Value(h.degrees.data / h.shard_ranks()); },
       together},
      {"parallelism.data_parallel_shard_degree", {s(D::ShardGroup), s(D::Data), S::Gpus},
       value_from<&ExportRequest::shard_ranks>,
       together},
      {"parallelism.fsdp_reshard_after_forward", {s(D::Zero)}, value_from<reshard>,
       read_reshard},
  };
}

std::vector<Key> parallel_keys() {
  return {
      {"parallelism.tensor_parallel_degree", {s(D::TensorOut), s(D::SequenceParallel)},
       degree<&PlanDegrees::tensor_out>},
      {"parallelism.context_parallel_degree", {s(D::Context)}, degree<&PlanDegrees::context>},
      {"parallelism.context_parallel_rotate_method", {s(D::ContextKind)},
       [](const ExportRequest& h) { return h.degrees.context > 1 ? Value("alltoall") : Value(); },
       [](Reading& r, const Value& v) { r.degrees.context_kind = text_in(v) == "alltoall" ? ContextKind::Ring : ContextKind::AllGather; }},
      {"parallelism.expert_parallel_degree", {s(D::Expert)}, degree_of_experts<&PlanDegrees::expert>},
      {"parallelism.pipeline_parallel_degree", {s(D::Pipeline)}, degree<&PlanDegrees::pipeline>},
      {"parallelism.pipeline_parallel_schedule", {s(D::Schedule)},
       [](const ExportRequest& h) { return h.degrees.pipeline > 1 ? Value(torch_schedule(h)) : Value(); },
       read_torch_schedule},
      {"parallelism.pipeline_parallel_microbatch_size", {s(D::MicroBatch), S::MicroBatches},
       [](const ExportRequest& h) { return h.degrees.pipeline > 1 ? Value(h.degrees.micro_batch) : Value(); },
       together},
      {"parallelism.module_fqns_per_model_part", {S::Layers, s(D::Chunks)}, module_names,
       read_module_names},
      // tensor_parallel.py, maybe_enable_async_tp: rings are made by the compiler.
      {"parallelism.enable_async_tensor_parallel", {s(D::Temporal)}, over_rings,
       read_rings},
      {"compile.enable", {s(D::Temporal)}, over_rings,
       together},
      {"checkpoint.enable", {S::Checkpoints}, with_checkpoints<true>, together},
      {"checkpoint.folder", {S::Checkpoints}, checkpoint_folder, together},
      {"checkpoint.interval", {S::Checkpoints}, checkpoint_steps, together},
      {"activation_checkpoint.mode", {s(D::Recompute)}, value_from<checkpoint_mode>,
       together},
      {"activation_checkpoint.selective_ac_option", {s(D::Recompute)},
       [](const ExportRequest& h) {
         return h.degrees.recompute == Recompute::Selective ? Value("op") : Value();
       },
       together},
  };
}
// clang-format on

Launch launch() {
  return {.script = "-m torchtitan.train",
          .arguments = "--job.config_file \"$PLAN_CONFIG\" \"${TRAIN_ARGS[@]}\"",
          .environment = {{"PYTORCH_ALLOC_CONF", expandable}}};
}

}  // namespace

Exporter torchtitan_toml_exporter() {
  std::vector<Accepts> accepts = torchtitan_accepts();
  accepts.push_back({s(D::SequenceParallel), {"1"}, By::Target});
  return {.title = "TOML file of torchtitan 0.2",
          .checked = "pytorch/torchtitan v0.2.2 (2026-02-20)",
          .framework = "torchtitan",
          .accepts = accepts,
          .documents = {{.keys = joined<Key>({training_keys(), parallel_keys()}),
                         .write = write_toml,
                         .file = "torchtitan.toml"}},
          .launch = launch(),
          .conflicts = {{"prediction modules",
                         [](const ExportRequest& h) { return h.model().mtp_layers > 0; }}},
          .notes = [](const ExportRequest& h) -> std::vector<std::string> {
            if (find_model(h, &RegisteredModel::flavor) != nullptr) return {};
            return {
                "no flavor has the sizes of this network: register one and set model.name and "
                "model.flavor"};
          },
          .start = start_torchtitan,
          .settle = settle_torchtitan_toml};
}

}  // namespace plansearch::exporters
