// SPDX-License-Identifier: Apache-2.0
// Source: NVIDIA-NeMo/Megatron-Bridge@067f987d (2026-08-22)
//   scripts/training/run_recipe.py (KEY=VALUE overrides of a recipe's ConfigContainer)
//   src/megatron/bridge/training/config.py: ConfigContainer; mixed_precision.py: registered names
//   src/megatron/bridge/training/comm_overlap.py: CommOverlapConfig
// A recipe has values of its own: every key of a plan is said.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "exporters/exporter.hpp"
#include "exporters/megatron_model.hpp"
#include "exporters/megatron_words.hpp"
#include "schedule/table.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;

std::string precision_name(const ExportRequest& h) {
  switch (h.problem.precision) {
    case DataType::Fp16:
      return "fp16_mixed";
    case DataType::Mxfp8:
      return "bf16_with_mxfp8_mixed";
    case DataType::Nvfp4:
      return "bf16_with_nvfp4_mixed";
    case DataType::Fp8:
      switch (h.problem.framework->fp8_recipe.value_or(Fp8Recipe::Tensorwise)) {
        case Fp8Recipe::Delayed:
          return "bf16_with_fp8_delayed_scaling_mixed";
        case Fp8Recipe::Block:
          return "bf16_with_fp8_subchannel_scaling_mixed";
        case Fp8Recipe::Mxfp8:
          return "bf16_with_mxfp8_mixed";
        default:
          return "bf16_with_fp8_current_scaling_mixed";
      }
    default:
      return "bf16_mixed";
  }
}

std::string gradients_word(const ExportRequest& h) {
  return hides_gradients(h) ? "true" : "false";
}
std::string gathers_word(const ExportRequest& h) {
  return hides_gathers(h) ? "true" : "false";
}

Value number_or_null(bool said, int number) {
  return said ? Value(number) : Value("null");
}

// clang-format off
std::vector<Key> plan_keys() {
  return {
      {"model.tensor_model_parallel_size", {s(D::TensorOut)}, degree<&PlanDegrees::tensor_out>},
      {"model.sequence_parallel", {s(D::SequenceParallel)},
       [](const ExportRequest& h) { return spelled_out(h.spreads_tokens()); }},
      {"model.pipeline_model_parallel_size", {s(D::Pipeline), s(D::Schedule)}, degree<&PlanDegrees::pipeline>},
      {"model.virtual_pipeline_model_parallel_size", {s(D::Chunks), s(D::Schedule)},
       [](const ExportRequest& h) { return number_or_null(h.degrees.chunks > 1, h.degrees.chunks); }},
      {"model.pipeline_model_parallel_layout", {S::Layers},
       [](const ExportRequest& h) { return Value(is_even(h.stages) ? std::string("null") : layout_of(h.stages)); }},
      {"model.context_parallel_size", {s(D::Context)}, degree<&PlanDegrees::context>},
      {"model.cp_comm_type", {s(D::ContextKind)},
       context_word},
      {"model.expert_model_parallel_size", {s(D::Expert)}, degree_of_experts<&PlanDegrees::expert>},
      {"model.expert_tensor_parallel_size", {s(D::ExpertTensor)}, degree_of_experts<&PlanDegrees::expert_tensor>},
      {"model.recompute_granularity", {s(D::Recompute)},
       [](const ExportRequest& h) { return Value(h.degrees.recompute == Recompute::None ? "null" : std::string(to_text(h.degrees.recompute))); }},
      {"model.recompute_method", {s(D::Recompute), s(D::RecomputeLayers)},
       [](const ExportRequest& h) {
         if (h.degrees.recompute != Recompute::Full) return Value("null");
         return Value(h.degrees.recompute_layers > 0 ? "block" : "uniform");
       }},
      {"model.recompute_num_layers", {s(D::Recompute), s(D::RecomputeLayers)},
       [](const ExportRequest& h) {
         return number_or_null(h.degrees.recompute == Recompute::Full, std::max(1, h.degrees.recompute_layers));
       }},
      {"train.micro_batch_size", {s(D::MicroBatch)}, degree<&PlanDegrees::micro_batch>},
      // World size, batch and micro-batch decide data parallelism and accumulation.
      {"train.global_batch_size", {S::GlobalBatch, S::MicroBatches, s(D::Data), S::Gpus}, kBatch},
      // The dataset owns the length; the model's follows it.
      {"dataset.seq_length", {S::SequenceLength}, kSequence},
      {"ddp.use_distributed_optimizer", {s(D::Zero)}, [](const ExportRequest& h) { return spelled_out(h.sharded()); }},
      {"ddp.use_megatron_fsdp", {s(D::Zero)}, [](const ExportRequest& h) { return spelled_out(megatron_fsdp(h)); }},
      {"ddp.data_parallel_sharding_strategy", {s(D::Zero)},
       sharding_strategy},
      {"ddp.num_distributed_optimizer_instances", {s(D::ShardGroup)},
       [](const ExportRequest& h) { return Value(h.sharded() ? h.degrees.data / h.shard_ranks() : 1); }},
      // _override_user_cfgs: what comm_overlap says wins over ddp.
      {"ddp.overlap_grad_reduce", {setting_of(Overlap::GradientReduction)}, value_from<gradients_word>},
      {"comm_overlap.overlap_grad_reduce", {setting_of(Overlap::GradientReduction)}, value_from<gradients_word>},
      {"ddp.overlap_param_gather", {setting_of(Overlap::ParameterGather)}, value_from<gathers_word>},
      {"comm_overlap.overlap_param_gather", {setting_of(Overlap::ParameterGather)}, value_from<gathers_word>},
      {"comm_overlap.tp_comm_overlap", {setting_of(Overlap::TensorParallel)},
       [](const ExportRequest& h) { return spelled_out(hides_tensor_messages(h)); }},
      {"dist.use_tp_pp_dp_mapping", {S::RankOrder},
       [](const ExportRequest& h) { return spelled_out(value_of(S::RankOrder, h).find("pp-dp") != std::string::npos); }},
      {"checkpoint.save", {S::Checkpoints}, hydra_checkpoint_folder},
      {"checkpoint.load", {S::Checkpoints}, hydra_checkpoint_folder},
      {"checkpoint.save_interval", {S::Checkpoints}, checkpoint_steps},
      {"mixed_precision", {S::Precision, setting_of(plansearch::Setting::Fp8Recipe)}, value_from<precision_name>},
  };
}
// clang-format on

std::vector<Accepts> accepts() {
  return {{s(D::Schedule), {"1f1b", "interleaved"}},
          {s(D::Recompute), {"none", "selective", "full"}},
          {S::Precision, {"bf16", "fp16", "fp8", "mxfp8", "nvfp4"}},
          {setting_of(plansearch::Setting::Fp8Recipe), {"tensorwise", "delayed", "block", "mxfp8"}},
          {S::Optimizer, {"adam"}, By::Script},
          {S::Attention, {"flash"}, By::Target},
          {S::RankOrder, {"tp-cp-dp-pp", "tp-cp-pp-dp"}},
          {S::Model, {}, By::Script},
          {setting_of(plansearch::Setting::LoraRank), {}, By::Script},
          {setting_of(plansearch::Setting::LoraTargets), {}, By::Script},
          {setting_of(Overlap::PipelineSend), {kOn}, By::Target},
          {setting_of(Overlap::ContextRing), {kOn}, By::Target}};
}

Launch launch() {
  return {.script = "scripts/training/run_recipe.py",
          .arguments = "\"${TRAIN_ARGS[@]}\" \"${BRIDGE_ARGS[@]}\""};
}

}  // namespace

Exporter megatron_bridge_exporter() {
  return {.title = "overrides of a recipe of Megatron-Bridge (NeMo)",
          .checked = "NVIDIA-NeMo/Megatron-Bridge@067f987d (2026-08-22)",
          .framework = "megatron",
          .accepts = accepts(),
          .documents = {{.keys = plan_keys(), .array = "BRIDGE_ARGS"}},
          .launch = launch(),
          .notes = [](const ExportRequest&) -> std::vector<std::string> {
            return {
                "the network is a recipe's: --model STEM --mode pretrain --dataset mock, or "
                "--recipe NAME, as arguments of the script",
                "comm_overlap is there in recipes that set it; a dispatcher of experts is the "
                "recipe's"};
          }};
}

}  // namespace plansearch::exporters
