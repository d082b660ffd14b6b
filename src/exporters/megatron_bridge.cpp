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
#include "plan/primitives/recompute.hpp"
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

Value word(bool on) {
  return Value(on ? "true" : "false");
}
std::string gradients_word(const ExportRequest& h) {
  return hides_gradients(h) ? "true" : "false";
}
std::string gathers_word(const ExportRequest& h) {
  return hides_gathers(h) ? "true" : "false";
}

/// Of a model with experts: how tokens reach them.
const TokenDispatcher& dispatcher(const ExportRequest& h) {
  return dispatcher_of(*h.problem.framework, h.degrees.dispatcher);
}
/// Somebody or a search chose it; else it is the recipe's.
bool names_dispatcher(const ExportRequest& h) {
  return h.degrees.dispatcher != kOwnDispatcher;
}
bool by_nodes(const ExportRequest& h) {
  return names_dispatcher(h) && dispatcher(h).path == TokenPath::Nodes;
}
bool pairs(const ExportRequest& h) {
  return schedule_row(h.degrees.schedule).joins;
}

Value dispatcher_type(const ExportRequest& h) {
  if (!h.model().moe || !names_dispatcher(h)) return Value();
  const bool gathers = dispatcher(h).path == TokenPath::Gather;
  return Value(by_nodes(h) ? "flex" : gathers ? "allgather" : "alltoall");
}
Value flex_backend(const ExportRequest& h) {
  if (!h.model().moe || !names_dispatcher(h)) return Value();
  return Value(by_nodes(h) ? dispatcher(h).name : std::string("null"));
}
/// transformer_config.py: pairs rule it out, and so do flex dispatchers.
Value shared_overlap(const ExportRequest& h) {
  return h.model().moe && (pairs(h) || by_nodes(h)) ? word(false) : Value();
}
Value overlaps_experts(const ExportRequest& h) {
  return h.model().moe ? word(pairs(h)) : Value();
}
Value delays_weights(const ExportRequest& h) {
  return h.model().moe ? word(pairs(h) && h.chosen.delay_wgrad == "1") : Value();
}

/// Experts and what is done beside their messages; a recipe of a dense model has none of it.
std::vector<Key> expert_keys() {
  return {
      {"model.moe_token_dispatcher_type", {s(D::Dispatcher)}, dispatcher_type},
      {"model.moe_flex_dispatcher_backend", {s(D::Dispatcher)}, flex_backend},
      {"model.moe_shared_expert_overlap", {s(D::Dispatcher), s(D::Schedule)}, shared_overlap},
      {"comm_overlap.overlap_moe_expert_parallel_comm", {s(D::Schedule)}, overlaps_experts},
      {"comm_overlap.delay_wgrad_compute",
       {setting_of(plansearch::Setting::DelayWeightGradients)},
       delays_weights},
  };
}

Value number_or_null(bool said, int number) {
  return said ? Value(number) : Value("null");
}

// clang-format off
std::vector<Key> recompute_keys() {
  return {
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
      {"model.recompute_modules", {s(D::Recompute), s(D::RecomputeModules)},
       [](const ExportRequest& h) {
         if (h.degrees.recompute != Recompute::Selective) return Value();
         const SelectiveRecompute selective = selective_of(*h.problem.framework, h.degrees);
         if (selective.rule != SelectiveRule::Modules) return Value("[core_attn]");
         return Value(fmt::format("[{}]", to_text(selective.modules, ",")));
       }},
  };
}

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
      {"train.micro_batch_size", {s(D::MicroBatch)}, degree<&PlanDegrees::micro_batch>},
      // World size, batch and micro-batch decide data parallelism and accumulation.
      {"train.global_batch_size", {S::GlobalBatch, S::MicroBatches, s(D::Data), S::Gpus}, kBatch},
      // The dataset owns the length; the model's follows it.
      {"dataset.seq_length", {S::SequenceLength}, kSequence},
      {"ddp.use_distributed_optimizer", {s(D::Zero)}, [](const ExportRequest& h) { return spelled_out(h.sharded()); }},
      {"ddp.use_megatron_fsdp", {s(D::Zero)}, [](const ExportRequest& h) { return spelled_out(megatron_fsdp(h)); }},
      {"ddp.data_parallel_sharding_strategy", {s(D::Zero)},
       sharding_strategy},
      // ConfigContainer.validate takes no other format of sharded parameters.
      {"checkpoint.ckpt_format", {s(D::Zero)},
       [](const ExportRequest& h) { return megatron_fsdp(h) ? Value("fsdp_dtensor") : Value(); }},
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
  return {{s(D::Schedule), {"1f1b", "interleaved", "pairs", "interleaved-pairs"}},
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

std::vector<Key> keys() {
  std::vector<Key> all = plan_keys();
  for (auto part : {recompute_keys(), expert_keys()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

Launch launch() {
  return {.script = "scripts/training/run_recipe.py",
          .arguments = "\"${TRAIN_ARGS[@]}\" \"${BRIDGE_ARGS[@]}\""};
}

}  // namespace

Exporter megatron_bridge_exporter() {
  return {
      .title = "overrides of a recipe of Megatron-Bridge (NeMo)",
      .checked = "NVIDIA-NeMo/Megatron-Bridge@067f987d (2026-08-22)",
      .framework = "megatron",
      .accepts = accepts(),
      .documents = {{.keys = keys(), .array = "BRIDGE_ARGS"}},
      .launch = launch(),
      .notes = [](const ExportRequest&) -> std::vector<std::string> {
        return {
            "the network is a recipe's: --model STEM --mode pretrain --dataset mock, or "
            "--recipe NAME, as arguments of the script",
            "comm_overlap is there in recipes that set it; a dispatcher of experts that the plan "
            "does not name is the recipe's"};
      }};
}

}  // namespace plansearch::exporters
