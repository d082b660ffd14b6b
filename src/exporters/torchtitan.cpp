// SPDX-License-Identifier: Apache-2.0
// torchtitan: command-line overrides of a registered configuration (main branch) and, in
// torchtitan_toml.cpp, the TOML file of 0.2.
//
// Keys and rules: pytorch/torchtitan@b5bcd76c (2026-08-21)
//   torchtitan/config/configs.py: TrainingConfig, ParallelismConfig
//   torchtitan/distributed/parallel_dims.py: ParallelDims._validate (mesh orders)
//   torchtitan/distributed/pipeline_parallel.py: _get_pipeline_metadata
//   torchtitan/distributed/activation_checkpoint.py: ActivationCheckpointingConfig (subcommands)
#include "exporters/offload_words.hpp"
#include "exporters/torchtitan_keys.hpp"
#include "exporters/torchtitan_reading.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;

/// By their network.
constexpr RegisteredModel kModels[] = {
    {"llama3", "llama3_8b", "8B", {32, 4096, 32, 8, 128256, 0, 8030261248}},
    {"llama3", "llama3_70b", "70B", {80, 8192, 64, 8, 128256, 0, 70553706496}},
    // llama3_405b of the main branch turns its linear layers into float8 ones.
    {"llama3", "", "405B", {126, 16384, 128, 8, 128256, 0, 405853388800}},
    {"qwen3", "qwen3_0_6b", "0.6B", {28, 1024, 16, 8, 151936, 0, 596049920}},
    {"qwen3", "qwen3_1_7b", "1.7B", {28, 2048, 16, 8, 151936, 0, 1720574976}},
    {"qwen3", "", "4B", {36, 2560, 32, 8, 151936, 0, 4022468096}},
    {"qwen3", "", "8B", {36, 4096, 32, 8, 151936, 0, 8190735360}},
    {"qwen3", "qwen3_14b", "14B", {40, 5120, 40, 8, 151936, 0, 14768307200}},
    {"qwen3", "qwen3_32b", "32B", {64, 5120, 64, 8, 151936, 0, 32762123264}},
    {"qwen3", "qwen3_30b_a3b", "30B-A3B", {48, 2048, 32, 4, 151936, 128, 30532122624}},
    {"qwen3", "", "235B-A22B", {94, 4096, 64, 4, 151936, 128, 235093634560}},
    {"deepseek_v3", "deepseek_v3_671b", "671B", {61, 7168, 128, 128, 129280, 256, 671026419200}},
    {"deepseek_v3", "deepseek_v3_16b", "16B", {27, 2048, 16, 16, 102400, 64, 15706484224}},
    {"gpt_oss", "gpt_oss_20b", "20b", {24, 2880, 64, 8, 201088, 32, 20914757184}},
    {"gpt_oss", "gpt_oss_120b", "120b", {36, 2880, 64, 8, 201088, 128, 116829156672}},
};

// clang-format off
std::vector<Key> training_keys() {
  return {
      {"--module", {S::Model},
       [](const ExportRequest& h) { return registered(h, &RegisteredModel::config, &RegisteredModel::module); },
       together},
      {"--config", {S::Model},
       [](const ExportRequest& h) { return registered(h, &RegisteredModel::config, &RegisteredModel::config); },
       together},
      // Batches are counted in tokens.
      {"--training.max_context_length", {S::SequenceLength}, kSequence},
      {"--training.num_tokens_per_microbatch_per_dp_rank", {s(D::MicroBatch)},
       [](const ExportRequest& h) { return Value(h.degrees.micro_batch * h.problem.seq_len); },
       together},
      {"--training.num_tokens_per_train_step", {S::GlobalBatch, S::MicroBatches},
       [](const ExportRequest& h) { return Value(h.problem.global_batch * h.problem.seq_len); },
       together},
      {"--training.mixed_precision_param", {S::Precision},
       [](const ExportRequest& h) { return Value(torch_name(h.problem.precision)); },
       read_torch_precision},
      // Kernels are priced one by one; stages and experts refuse graphs (_validate_cuda_graphs).
      {"--training.disable_cuda_graphs", {setting_of(plansearch::Setting::CudaGraphs)}, constant<true>,
       together},
      {"--training.enable_cpu_offload", {setting_of(Degree::Offload)},
       [](const ExportRequest& h) { return flag(host_tensors(h.degrees.on_host).parameters); },
       read_shard_offload},
      {"--parallelism.data_parallel_replicate_degree", {s(D::ShardGroup), s(D::Data), S::Gpus},
       [](const ExportRequest& h) { return Value(h.degrees.data / h.shard_ranks()); },
       together},
      {"--parallelism.data_parallel_shard_degree", {s(D::ShardGroup), s(D::Data), S::Gpus},
       value_from<&ExportRequest::shard_ranks>,
       together},
      {"--parallelism.fsdp_reshard_after_forward", {s(D::Zero)}, value_from<reshard>,
       read_reshard},
  };
}

std::vector<Key> parallel_keys() {
  return {
      {"--parallelism.tensor_parallel_degree", {s(D::TensorOut)}, degree<&PlanDegrees::tensor_out>},
      {"--parallelism.enable_sequence_parallel", {s(D::SequenceParallel)}, flag_of<&ExportRequest::spreads_tokens>,
       together},
      {"--parallelism.no_enable_sequence_parallel", {s(D::SequenceParallel)},
       [](const ExportRequest& h) {
         return flag(h.degrees.sequence_parallel == SequenceParallel::Off && h.degrees.tensor_out > 1);
       },
       together},
      {"--parallelism.context_parallel_degree", {s(D::Context), s(D::ContextKind)}, degree<&PlanDegrees::context>},
      {"--parallelism.expert_parallel_degree", {s(D::Expert)}, degree_of_experts<&PlanDegrees::expert>},
      {"--parallelism.pipeline_parallel_degree", {s(D::Pipeline)}, degree<&PlanDegrees::pipeline>},
      {"--parallelism.pipeline_parallel_schedule", {s(D::Schedule)},
       [](const ExportRequest& h) { return h.degrees.pipeline > 1 ? Value(torch_schedule(h)) : Value(); },
       read_torch_schedule},
      {"--parallelism.num_pp_microbatches", {S::MicroBatches},
       [](const ExportRequest& h) { return h.degrees.pipeline > 1 ? Value(h.degrees.micro_batches) : Value(); },
       [](Reading& r, const Value& v) { r.degrees.micro_batches = count_in(v); }},
      {"--parallelism.pipeline_parallel_layers_per_stage", {s(D::Chunks), S::Layers}, layers_per_stage,
       together},
      // CompileConfig.__post_init__: rings are made by the compiler.
      {"--compile.enable", {s(D::Temporal)}, over_rings,
       together},
      {"--compile.enable_async_tensor_parallel", {s(D::Temporal)}, over_rings,
       read_rings},
      {"--checkpoint.enable", {S::Checkpoints}, with_checkpoints<true>, together},
      {"--checkpoint.folder", {S::Checkpoints}, checkpoint_folder, together},
      {"--checkpoint.interval", {S::Checkpoints}, checkpoint_steps, together},
      // A subcommand: it ends the command line.
      {"activation-checkpoint:none", {s(D::Recompute)},
       [](const ExportRequest& h) { return is_level(h, Recompute::None); },
       [](Reading& r, const Value&) { r.degrees.recompute = Recompute::None; }},
      {"activation-checkpoint:selective", {s(D::Recompute)},
       [](const ExportRequest& h) { return is_level(h, Recompute::Selective); },
       [](Reading& r, const Value&) { r.degrees.recompute = Recompute::Selective; }},
      {"activation-checkpoint:full", {s(D::Recompute)},
       [](const ExportRequest& h) { return is_level(h, Recompute::Full); },
       [](Reading& r, const Value&) { r.degrees.recompute = Recompute::Full; }},
  };
}
// clang-format on

Launch launch() {
  return {.script = "-m torchtitan.train",
          // The array ends with a subcommand, behind which no option may stand.
          .arguments = "\"${TRAIN_ARGS[@]}\" \"${TITAN_ARGS[@]}\"",
          .environment = {{"PYTORCH_ALLOC_CONF", expandable}}};
}

}  // namespace

const RegisteredModel* find_model(const ExportRequest& h, ModelName name) {
  const ModelDescription& m = h.model();
  const NetworkSizes sizes{m.layers,
                           m.hidden,
                           m.attention.heads,
                           m.attention.kv_heads,
                           m.embedding.vocab,
                           m.moe ? m.moe->experts : 0,
                           parameter_count(*h.problem.network)};
  const auto* found = std::find_if(
      std::begin(kModels), std::end(kModels),
      [&](const RegisteredModel& model) { return model.sizes == sizes && !(model.*name).empty(); });
  return found == std::end(kModels) ? nullptr : found;
}

const RegisteredModel* find_registered(std::string_view module, ModelName name,
                                       std::string_view word) {
  const auto* found = std::find_if(
      std::begin(kModels), std::end(kModels),
      [&](const RegisteredModel& model) { return model.module == module && model.*name == word; });
  return found == std::end(kModels) ? nullptr : found;
}

Value registered(const ExportRequest& request, ModelName name, ModelName word) {
  const RegisteredModel* found = find_model(request, name);
  return found == nullptr ? Value() : Value(found->*word);
}

std::string torch_name(DataType precision) {
  return precision == DataType::Fp32 ? "float32" : "bfloat16";
}

/// FSDP2 frees parameters after forward (ZeRO-3), but by default keeps them where a pipeline has
/// micro-batches in flight, as plans are priced; ZeRO-2 keeps them always.
std::string reshard(const ExportRequest& h) {
  return h.degrees.zero == ZeroStage::Gradients ? "never" : "default";
}

const std::map<std::string, std::string>& torch_schedules() {
  // Names of torch.distributed.pipelining.schedules.get_schedule_class.
  static const std::map<std::string, std::string> kNames{{"gpipe", "GPipe"},
                                                         {"1f1b", "1F1B"},
                                                         {"interleaved", "Interleaved1F1B"},
                                                         {"breadth-first", "LoopedBFS"},
                                                         {"zb-v", "ZBVZeroBubble"},
                                                         {"dualpipe-v", "DualPipeV"}};
  return kNames;
}

std::string torch_schedule(const ExportRequest& h) {
  const auto& kNames = torch_schedules();
  const auto found = kNames.find(value_of(s(D::Schedule), h));
  return found == kNames.end() ? std::string() : found->second;
}

Value layers_per_stage(const ExportRequest& h) {
  if (h.degrees.pipeline == 1) return {};
  // Embedding and output count as a layer each.
  const std::int64_t weights = h.model().layers + 2;
  const std::int64_t stages = h.virtual_stages();
  const std::int64_t layers = (weights + stages - 1) / stages;
  const std::int64_t made = (weights + layers - 1) / layers;
  return made == stages && h.stages == h.own_stages ? Value(layers) : Value();
}

Value over_rings(const ExportRequest& h) {
  return flag(h.degrees.temporal == Temporal::Ring);
}

Value is_level(const ExportRequest& h, Recompute level) {
  return h.degrees.recompute == level ? Value(true) : Value();
}

std::vector<Accepts> torchtitan_accepts() {
  return {{s(D::ContextKind), {"ring"}},
          {s(D::Zero), {"2", "3"}},
          {s(D::Schedule), {"gpipe", "1f1b", "interleaved", "breadth-first", "zb-v", "dualpipe-v"}},
          {S::Precision, {"bf16", "fp32"}},
          {S::Optimizer, {"adam"}, By::Target},
          {S::Attention, {"flash"}, By::Target},
          {S::RankOrder, {"tp-cp-dp-pp"}, By::Target},
          {S::Model, {}, By::Script},
          {setting_of(Degree::Offload), shard_offloads()},
          {setting_of(Overlap::GradientReduction), {kOn}, By::Target},
          {setting_of(Overlap::ParameterGather), {kOn}, By::Target},
          {setting_of(Overlap::PipelineSend), {}, By::Target},
          {setting_of(Overlap::ContextRing), {}, By::Target}};
}

std::optional<std::string> expandable(const ExportRequest&) {
  return "expandable_segments:True";
}

Exporter torchtitan_exporter() {
  std::vector<Accepts> accepts = torchtitan_accepts();
  accepts.push_back({S::Layers, {kOwnSplit}, By::Key});
  accepts.push_back({setting_of(plansearch::Setting::CudaGraphs), {"0"}});
  return {.title = "command line of torchtitan",
          .checked = "pytorch/torchtitan@b5bcd76c (2026-08-21)",
          .framework = "torchtitan",
          .accepts = accepts,
          .documents = {{.keys = joined<Key>({training_keys(), parallel_keys()}),
                         .array = "TITAN_ARGS"}},
          .launch = launch(),
          .notes = [](const ExportRequest& h) -> std::vector<std::string> {
            if (find_model(h, &RegisteredModel::config) != nullptr) return {};
            return {
                "no registered configuration is this network: register one and "
                "put --module and --config in front of the arguments"};
          },
          .start = start_torchtitan,
          .settle = settle_torchtitan};
}

}  // namespace plansearch::exporters
