// SPDX-License-Identifier: Apache-2.0
// ms-swift: the arguments of `megatron sft` and `megatron pt` (Megatron-SWIFT).
//
// Keys and rules: modelscope/ms-swift@3602360a (2026-08-22)
//   swift/megatron/arguments/megatron_args.py: MegatronArguments, MegatronTunerMixin
//   swift/megatron/arguments/megatron_base_args.py: seq_length follows max_length
//   swift/cli/_megatron/sft.py: what torchrun starts
#include <fmt/format.h>

#include <algorithm>

#include "base/names.hpp"
#include "exporters/hugging_face.hpp"
#include "exporters/megatron_adapters.hpp"
#include "exporters/megatron_model.hpp"
#include "exporters/megatron_reading.hpp"
#include "exporters/megatron_words.hpp"
#include "plansearch/degree_table.hpp"
#include "schedule/table.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;

Value if_on(bool on) {
  return on ? Value("true") : Value();
}

bool fp8(const ExportRequest& h) {
  return has_precision(h, {DataType::Fp8, DataType::Mxfp8});
}

// clang-format off
std::vector<Key> parallel_keys() {
  return {
      {"--tensor_model_parallel_size", {s(D::TensorOut)}, degree<&PlanDegrees::tensor_out>},
      {"--sequence_parallel", {s(D::SequenceParallel)},
       [](const ExportRequest& h) { return spelled_out(h.spreads_tokens()); },
       read_sequence_parallel},
      {"--pipeline_model_parallel_size", {s(D::Pipeline), s(D::Schedule)}, degree<&PlanDegrees::pipeline>},
      {"--virtual_pipeline_model_parallel_size", {s(D::Chunks), s(D::Schedule)},
       [](const ExportRequest& h) { return h.degrees.chunks > 1 && is_even(h.stages) ? Value(h.degrees.chunks) : Value(); }, together},
      {"--pipeline_model_parallel_layout", {S::Layers, s(D::Chunks), s(D::Schedule)},
       [](const ExportRequest& h) { return is_even(h.stages) ? Value() : Value(layout_of(h.stages)); }, together},
      {"--context_parallel_size", {s(D::Context)}, degree<&PlanDegrees::context>},
      {"--cp_comm_type", {s(D::ContextKind)}, context_word, read_context_kind},
      {"--expert_model_parallel_size", {s(D::Expert)}, degree_of_experts<&PlanDegrees::expert>},
      {"--expert_tensor_parallel_size", {s(D::ExpertTensor)}, degree_of_experts<&PlanDegrees::expert_tensor>},
      {"--moe_token_dispatcher_type", {setting_of(D::Dispatcher)}, dispatcher_word, together},
      {"--moe_enable_deepep", {setting_of(D::Dispatcher)},
       [](const ExportRequest& h) { return if_on(dispatcher_word(h) == Value("flex")); }, together},
      {"--micro_batch_size", {s(D::MicroBatch)}, degree<&PlanDegrees::micro_batch>},
      {"--global_batch_size", {S::GlobalBatch, S::MicroBatches, s(D::Data), S::Gpus}, kBatch},
      {"--max_length", {S::SequenceLength}, kSequence},
      {"--packing", {kPacking}, [](const ExportRequest& h) { return if_on(h.chosen.packing.has_value()); }, read_packing},
      // The default is selective.
      {"--recompute_granularity", {s(D::Recompute)}, [](const ExportRequest& h) { return Value(to_text(h.degrees.recompute)); }, together},
      {"--recompute_method", {s(D::Recompute), s(D::RecomputeLayers)}, recompute_method, together},
      {"--recompute_num_layers", {s(D::Recompute), s(D::RecomputeLayers)}, recompute_layers, together},
      {"--recompute_modules", {s(D::Recompute), setting_of(D::RecomputeModules)}, recomputed_modules, together},
      {"--attention_backend", {S::Attention},
       [](const ExportRequest& h) { return Value(h.attention == "unfused" ? "unfused" : "flash"); },
       [](Reading& r, const Value& v) { if (text_in(v) == "unfused" || text_in(v) == "local") r.asked.attention = "unfused"; }},
  };
}

std::vector<Key> state_keys() {
  return {
      {"--optimizer", {S::Optimizer}, [](const ExportRequest& h) { return Value(h.optimizer); },
       [](Reading& r, const Value& v) { r.asked.optimizer = text_in(v) == "dist_muon" ? "muon" : text_in(v); }},
      {"--use_distributed_optimizer", {s(D::Zero)}, [](const ExportRequest& h) { return spelled_out(h.sharded()); }, together},
      {"--use_megatron_fsdp", {s(D::Zero)}, [](const ExportRequest& h) { return if_on(megatron_fsdp(h)); }, together},
      {"--data_parallel_sharding_strategy", {s(D::Zero)}, sharding_strategy, together},
      {"--overlap_grad_reduce", {setting_of(Overlap::GradientReduction)},
       [](const ExportRequest& h) { return spelled_out(hides_gradients(h)); },
       [](Reading& r, const Value& v) { r.hide(Overlap::GradientReduction, is_on(v)); }},
      {"--overlap_param_gather", {setting_of(Overlap::ParameterGather)},
       [](const ExportRequest& h) { return spelled_out(hides_gathers(h)); },
       [](Reading& r, const Value& v) { r.hide(Overlap::ParameterGather, is_on(v)); }},
      {"--overlap_p2p_comm", {setting_of(Overlap::PipelineSend)},
       [](const ExportRequest& h) {
         return h.degrees.chunks > 1 && !h.overlaps(Overlap::PipelineSend) ? Value("false") : Value();
       },
       [](Reading& r, const Value& v) { if (!is_on(v)) r.hide(Overlap::PipelineSend, false); }},
      {"--tp_comm_overlap", {setting_of(Overlap::TensorParallel)},
       [](const ExportRequest& h) { return spelled_out(hides_tensor_messages(h)); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.hide(Overlap::TensorParallel, true); }},
      {"--optimizer_cpu_offload", {kOffload}, [](const ExportRequest& h) { return if_on(offloads_optimizer(h)); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.offload("optimizer"); }},
      {"--use_precision_aware_optimizer", {kOffload, kMoments, kMainGradients},
       [](const ExportRequest& h) {
         return if_on(offloads_optimizer(h) || h.chosen.optimizer_states || h.chosen.main_grads == "bf16");
       },
       together},
      {"--main_grads_dtype", {kMainGradients},
       [](const ExportRequest& h) { return h.chosen.main_grads == "bf16" ? Value("bf16") : Value(); },
       [](Reading& r, const Value& v) { if (text_in(v) == "bf16") r.asked.main_grads = "bf16"; }},
      {"--exp_avg_dtype", {kMoments}, [](const ExportRequest& h) { return h.chosen.optimizer_states ? Value(*h.chosen.optimizer_states) : Value(); }, together},
      {"--exp_avg_sq_dtype", {kMoments}, [](const ExportRequest& h) { return h.chosen.optimizer_states ? Value(*h.chosen.optimizer_states) : Value(); }, together},
  };
}

std::vector<Key> format_keys() {
  return {
      {"--torch_dtype", {S::Precision},
       [](const ExportRequest& h) {
         if (has_precision(h, {DataType::Fp32})) return Value("float32");
         return Value(has_precision(h, {DataType::Fp16}) ? "float16" : "bfloat16");
       },
       [](Reading& r, const Value& v) { r.asked.precision = text_in(v) == "float16" ? "fp16" : text_in(v) == "float32" ? "fp32" : "bf16"; }},
      // What bf16 implies and fp16 does not.
      {"--accumulate_allreduce_grads_in_fp32", {kMainGradients},
       [](const ExportRequest& h) { return if_on(has_precision(h, {DataType::Fp16})); }, together},
      {"--fp8_format", {S::Precision},
       [](const ExportRequest& h) { return fp8(h) ? Value(fp8_recipe_word(h) == "mxfp8" ? "e4m3" : "hybrid") : Value(); }, together},
      {"--fp8_recipe", {S::Precision, setting_of(plansearch::Setting::Fp8Recipe)},
       [](const ExportRequest& h) { return fp8(h) ? Value(fp8_recipe_word(h)) : Value(); }, together},
      {"--fp8_param_gather", {S::Precision}, [](const ExportRequest& h) { return if_on(fp8(h) && h.sharded()); }, together},
      {"--fp4_format", {S::Precision},
       [](const ExportRequest& h) { return has_precision(h, {DataType::Nvfp4}) ? Value("e2m1") : Value(); }, together},
      {"--mtp_num_layers", {S::Model},
       [](const ExportRequest& h) { return h.model().mtp_layers > 0 ? Value(h.model().mtp_layers) : Value(); }, together},
      {"--tuner_type", {kAdapterRank}, [](const ExportRequest& h) { return h.model().training.lora ? Value("lora") : Value(); }, together},
      {"--tuner_type", {S::Model}, [](const ExportRequest& h) { return h.model().training.lora ? Value() : Value("full"); }},
      {"--lora_rank", {kAdapterRank}, adapter_rank, together},
      {"--target_modules", {kAdapterTargets, kAdapterRank}, megatron_adapters, together},
      only_read("--bf16", [](Reading& r, const Value& v) { if (is_on(v)) r.asked.precision = "bf16"; }),
      only_read("--fp16", [](Reading& r, const Value& v) { if (is_on(v)) r.asked.precision = "fp16"; }),
      only_read("--train_type", together),
      only_read("--decoder_first_pipeline_num_layers", together),
      only_read("--decoder_last_pipeline_num_layers", together),
      only_read("--account_for_embedding_in_pipeline_split", together),
      only_read("--account_for_loss_in_pipeline_split", together),
      {"--output_dir", {S::Checkpoints}, checkpoint_folder, together},
      {"--add_version", {S::Checkpoints}, [](const ExportRequest& h) { return h.job.checkpoints.empty() ? Value() : Value("false"); }, together},
      {"--save_steps", {S::Checkpoints}, checkpoint_steps, together},
      {"--model", {}, [](const ExportRequest& h) { return Value(h.model().name); },
       [](Reading& r, const Value& v) { r.named = text_in(v); }, true},
  };
}
// clang-format on

/// megatron_args.py: MegatronArguments.
void start(Reading& r) {
  r.asked.framework = "megatron";
  r.asked.optimizer = "adam";
  r.asked.precision = "bf16";
  r.asked.batch = 16;
  r.degrees.data = 0;
  r.degrees.micro_batches = 0;
  r.degrees.expert_tensor = 1;
}

void settle(Reading& r) {
  say_as_megatron(r, "--");
  const auto unless_said = [&](const char* flag, const char* value) {
    if (!r.says(flag)) r.said[flag] = Value(value);
  };
  unless_said("--use-distributed-optimizer", "true");
  if (!r.says("--recompute_granularity")) r.said["--recompute-granularity"] = Value("selective");
  if (r.says("--virtual-pipeline-model-parallel-size"))
    r.said["--num-virtual-stages-per-pipeline-rank"] =
        r.value("--virtual-pipeline-model-parallel-size");
  if (r.says("--fp8-format")) unless_said("--fp8-recipe", "delayed");
  const std::string dispatcher = r.says("--moe-token-dispatcher-type")
                                     ? text_in(r.value("--moe-token-dispatcher-type"))
                                     : std::string("alltoall");
  if (dispatcher == "allgather") r.degrees.dispatcher = find_dispatcher("all-gather").value();
  if (dispatcher == "flex") r.degrees.dispatcher = find_dispatcher("deepep").value();
  const char* type = r.says("--tuner_type") ? "--tuner_type" : "--train_type";
  if (r.says(type) && text_in(r.value(type)) == "lora")
    read_megatron_adapters(r, "--lora_rank", "--target_modules");
  settle_megatron_plan(r);
}

std::vector<Accepts> accepts() {
  return {{s(D::Schedule), {"1f1b", "interleaved"}},
          {S::Precision, {"bf16", "fp16", "fp32", "fp8", "mxfp8", "nvfp4"}},
          {setting_of(plansearch::Setting::Fp8Recipe), {"tensorwise", "delayed", "block", "mxfp8"}},
          {S::Optimizer, {"adam", "sgd", "muon"}},
          {S::Attention, {"flash", "unfused"}},
          {S::RankOrder, {"tp-cp-dp-pp"}, By::Target},
          {S::Model, {}, By::Script},
          {kMainGradients, {"bf16", "fp32"}, By::Key, "fp32"},
          {kMoments, {"fp32", "bf16", "fp16", "fp8"}},
          {kOffload, {"none", "optimizer"}},
          {setting_of(D::RecomputeModules)},
          {setting_of(D::Dispatcher), {"own", "all-gather", "deepep"}},
          {kPacking},
          {kAdapterTargets, {"all-linear", "attention", "mlp"}},
          {setting_of(Overlap::PipelineSend), {}, By::Key, kOn},
          {setting_of(Overlap::ContextRing), {kOn}, By::Target}};
}

/// megatron_args.py: __post_init__ sets 1; _check_megatron_fsdp refuses 1.
std::optional<std::string> max_connections(const ExportRequest& h) {
  return megatron_fsdp(h) ? std::optional<std::string>("32") : std::nullopt;
}

Launch launch() {
  return {.script = "swift/cli/_megatron/sft.py",
          .arguments = "\"${SWIFT_ARGS[@]}\" \"${TRAIN_ARGS[@]}\"",
          .environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", max_connections}}};
}

std::vector<std::string> notes(const ExportRequest& h) {
  std::vector<std::string> words{
      "--model is the folder or name of the weights, --dataset is missing: arguments of the "
      "script"};
  if (h.model().training.lora)
    words.emplace_back(
        "linear_qkv and linear_fc1 have one adapter for several matrices: fewer parameters than "
        "predicted");
  return words;
}

}  // namespace

Exporter swift_exporter() {
  return {
      .title = "arguments of megatron sft (ms-swift)",
      .checked = "modelscope/ms-swift@3602360a (2026-08-22)",
      .framework = "megatron",
      .accepts = accepts(),
      .documents = {{.keys = joined<Key>({parallel_keys(), state_keys(), format_keys()}),
                     .array = "SWIFT_ARGS"}},
      .launch = launch(),
      .conflicts = {{"muon with ZeRO, which ms-swift takes off",
                     [](const ExportRequest& h) { return h.optimizer == "muon" && h.sharded(); }},
                    {"formats of moments or of main gradients (--optimizer-states, "
                     "--main-grads) without ZeRO",
                     [](const ExportRequest& h) {
                       const bool own = h.chosen.optimizer_states || h.chosen.main_grads == "bf16";
                       return own && !h.sharded();
                     }}},
      .notes = notes,
      .start = start,
      .settle = settle};
}

}  // namespace plansearch::exporters
