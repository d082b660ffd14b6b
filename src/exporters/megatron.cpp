// SPDX-License-Identifier: Apache-2.0
// Megatron-LM: the arguments of pretrain_gpt.py as a bash array.
//
// Keys and rules: NVIDIA/Megatron-LM@d98e8a64 (2026-08-22)
//   megatron/training/arguments.py: add_megatron_arguments, validate_args
//   megatron/core/transformer/transformer_config.py: TransformerConfig.__post_init__
//   megatron/core/parallel_state.py: initialize_model_parallel (rank orders, partial data groups)
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.hpp"
#include "exporters/exporter.hpp"
#include "exporters/megatron_model.hpp"
#include "exporters/megatron_reading.hpp"
#include "exporters/megatron_words.hpp"
#include "exporters/offload_words.hpp"
#include "plansearch/degree_table.hpp"
#include "schedule/table.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;

/// The format in which gradients are added up, where there is one beside the gradients'.
std::optional<DataType> main_gradients(const ExportRequest& h) {
  const auto policy = h.problem.framework->precision.find(h.problem.precision);
  return policy == h.problem.framework->precision.end() ? std::nullopt
                                                        : policy->second.main_gradient;
}
/// TransformerConfig.__post_init__ excludes full recomputation and needs chunks in a pipeline.
bool overlap_experts(const ExportRequest& h) {
  const PlanDegrees& d = h.degrees;
  const bool half = h.problem.precision != DataType::Fp32;
  const bool own = d.dispatcher == kOwnDispatcher;  // what its runs hide on average
  const bool hides = (own && h.overlaps(Overlap::ExpertAllToAll)) || schedule_row(d.schedule).joins;
  return hides && h.model().moe && d.recompute != Recompute::Full && half &&
         (d.pipeline == 1 || d.chunks > 1) && h.model().mtp_layers <= 1;
}

/// TransformerConfig.__post_init__: together with the overlap of experts only.
bool delays_weights(const ExportRequest& h) {
  return h.chosen.delay_wgrad == "1" && overlap_experts(h);
}

// clang-format off
std::vector<Key> parallel_keys() {
  return {
      {"--tensor-model-parallel-size", {s(D::TensorOut)}, degree<&PlanDegrees::tensor_out>},
      {"--sequence-parallel", {s(D::SequenceParallel)}, flag_of<&ExportRequest::spreads_tokens>,
       read_sequence_parallel},
      {"--pipeline-model-parallel-size", {s(D::Pipeline), s(D::Schedule)}, degree<&PlanDegrees::pipeline>},
      {"--num-layers-per-virtual-pipeline-stage", {s(D::Chunks), s(D::Schedule)},
       [](const ExportRequest& h) {
         return h.degrees.chunks > 1 && is_even(h.stages) ? Value(h.stages.front().layers) : Value();
       },
       together},
      {"--pipeline-model-parallel-layout", {S::Layers, s(D::Chunks), s(D::Schedule)},
       [](const ExportRequest& h) { return is_even(h.stages) ? Value() : Value(layout_of(h.stages)); },
       together},
      {"--context-parallel-size", {s(D::Context)}, degree<&PlanDegrees::context>},
      {"--cp-comm-type", {s(D::ContextKind)}, context_word, read_context_kind},
      {"--expert-model-parallel-size", {s(D::Expert)}, degree_of_experts<&PlanDegrees::expert>},
      // Left out it would be the tensor degree.
      {"--expert-tensor-parallel-size", {s(D::ExpertTensor)}, degree_of_experts<&PlanDegrees::expert_tensor>},
      {"--use-tp-pp-dp-mapping", {S::RankOrder},
       [](const ExportRequest& h) {
         const std::string order = value_of(S::RankOrder, h);
         return flag(order.find("pp-dp") != std::string::npos);
       },
       [](Reading& r, const Value& v) { if (is_on(v)) r.asked.rank_order = "tp-cp-pp-dp"; }},
  };
}

std::vector<Key> optimizer_keys() {
  return {
      {"--optimizer", {S::Optimizer}, [](const ExportRequest& h) { return Value(h.optimizer); },
       [](Reading& r, const Value& v) { r.asked.optimizer = text_in(v); }},
      {"--use-distributed-optimizer", {s(D::Zero)}, flag_of<&ExportRequest::sharded>,
       together},
      {"--use-megatron-fsdp", {s(D::Zero)}, flag_of<megatron_fsdp>,
       together},
      {"--data-parallel-sharding-strategy", {s(D::Zero)},
       sharding_strategy, together},
      {"--ckpt-format", {s(D::Zero)},
       [](const ExportRequest& h) { return megatron_fsdp(h) ? Value("fsdp_dtensor") : Value(); },
       together},
      {"--num-distributed-optimizer-instances", {s(D::ShardGroup)},
       [](const ExportRequest& h) {
         const int copies = h.degrees.data / h.shard_ranks();
         return h.sharded() && copies > 1 ? Value(copies) : Value();
       },
       together},
      {"--overlap-grad-reduce", {setting_of(Overlap::GradientReduction)}, flag_of<hides_gradients>,
       [](Reading& r, const Value& v) { r.hide(Overlap::GradientReduction, is_on(v)); }},
      {"--overlap-param-gather", {setting_of(Overlap::ParameterGather)}, flag_of<hides_gathers>,
       [](Reading& r, const Value& v) { r.hide(Overlap::ParameterGather, is_on(v)); }},
      {"--no-overlap-p2p-communication", {setting_of(Overlap::PipelineSend)},
       [](const ExportRequest& h) {
         return flag(h.degrees.chunks > 1 && !h.overlaps(Overlap::PipelineSend));
       },
       [](Reading& r, const Value& v) { if (is_on(v)) r.hide(Overlap::PipelineSend, false); }},
      {"--tp-comm-overlap", {setting_of(Overlap::TensorParallel)}, flag_of<hides_tensor_messages>,
       [](Reading& r, const Value& v) { r.hide(Overlap::TensorParallel, is_on(v)); }},
      {"--overlap-moe-expert-parallel-comm", {setting_of(Overlap::ExpertAllToAll), s(D::Schedule)}, flag_of<overlap_experts>,
       together},
      {"--delay-wgrad-compute", {setting_of(plansearch::Setting::DelayWeightGradients)}, flag_of<delays_weights>,
       [](Reading& r, const Value& v) { if (is_on(v)) r.asked.delay_wgrad = "1"; }},
  };
}

constexpr Setting kRecipe = setting_of(plansearch::Setting::Fp8Recipe);
constexpr Setting kModules = setting_of(D::RecomputeModules);
constexpr Setting kStates = setting_of(plansearch::Setting::OptimizerStates);
constexpr Setting kRouting = setting_of(plansearch::Setting::Routing);
constexpr Setting kGraphs = setting_of(plansearch::Setting::CudaGraphs);

Value moments(const ExportRequest& h) {
  return h.chosen.optimizer_states ? Value(*h.chosen.optimizer_states) : Value();
}

/// Beyond the plan: what somebody chose of the software.
std::vector<Key> software_keys() {
  return {
      {"--grad-reduce-in-bf16", {kMainGradients},
       [](const ExportRequest& h) { return flag(h.chosen.main_grads == "bf16"); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.asked.main_grads = "bf16"; }},
      // What --bf16 implies and --fp16 does not.
      {"--accumulate-allreduce-grads-in-fp32", {kMainGradients},
       [](const ExportRequest& h) {
         const bool half = has_precision(h, {DataType::Fp16});
         return flag(half && main_gradients(h) == DataType::Fp32);
       },
       together},
      {"--cuda-graph-impl", {kGraphs},
       [](const ExportRequest& h) { return h.chosen.cuda_graphs == "1" ? Value("full_iteration") : Value(); },
       [](Reading& r, const Value& v) { if (text_in(v) == "full_iteration") r.asked.cuda_graphs = "1"; }},
      {"--no-check-for-nan-in-loss-and-grad", {kGraphs},
       [](const ExportRequest& h) { return flag(h.chosen.cuda_graphs == "1"); },
       together},
      {"--optimizer-cpu-offload", {kOffload}, flag_of<offloads_optimizer>,
       [](Reading& r, const Value& v) { if (is_on(v)) r.offload("optimizer"); }},
      {"--optimizer-offload-fraction", {kOffload},
       [](const ExportRequest& h) { return offloads_optimizer(h) ? Value(1.0) : Value(); },
       together},
      {"--fine-grained-activation-offloading", {kOffload},
       [](const ExportRequest& h) { return flag(host_tensors(h.degrees.on_host).modules.any()); },
       together},
      {"--offload-modules", {kOffload},
       [](const ExportRequest& h) {
         const LayerModules modules = host_tensors(h.degrees.on_host).modules;
         return modules.any() ? Value(words_of(to_text(modules, " "), " ")) : Value();
       },
       [](Reading& r, const Value& v) { for (const std::string& word : texts_in(v)) r.offload(word); }},
      {"--use-precision-aware-optimizer", {kOffload, kStates},
       [](const ExportRequest& h) { return flag(offloads_optimizer(h) || h.chosen.optimizer_states.has_value()); },
       together},
      {"--exp-avg-dtype", {kStates}, moments,
       together},
      {"--exp-avg-sq-dtype", {kStates}, moments,
       together},
      // A run that is started again goes on where the last checkpoint is.
      {"--save", {S::Checkpoints}, checkpoint_folder, together},
      {"--load", {S::Checkpoints}, checkpoint_folder, together},
      {"--save-interval", {S::Checkpoints}, checkpoint_steps, together},
  };
}

std::vector<Key> batch_keys() {
  return {
      {"--micro-batch-size", {s(D::MicroBatch)}, degree<&PlanDegrees::micro_batch>},
      // World size, batch and micro-batch decide data parallelism and accumulation.
      {"--global-batch-size", {S::GlobalBatch, S::MicroBatches, s(D::Data), S::Gpus},
       kBatch},
      {"--seq-length", {S::SequenceLength}, kSequence},
      {"--recompute-granularity", {s(D::Recompute)},
       [](const ExportRequest& h) {
         return h.degrees.recompute == Recompute::None ? Value() : Value(to_text(h.degrees.recompute));
       },
       together},
      {"--recompute-method", {s(D::Recompute), s(D::RecomputeLayers)},
       recompute_method, together},
      {"--recompute-num-layers", {s(D::Recompute), s(D::RecomputeLayers)},
       recompute_layers, together},
      {"--recompute-modules", {s(D::Recompute)},
       [](const ExportRequest& h) { return names_modules(h) ? Value() : recomputed_modules(h); },
       together},
      {"--recompute-modules", {kModules},
       [](const ExportRequest& h) { return names_modules(h) ? recomputed_modules(h) : Value(); }},
      {"--attention-backend", {S::Attention},
       [](const ExportRequest& h) { return h.attention == "unfused" ? Value("unfused") : Value(); },
       [](Reading& r, const Value& v) { if (text_in(v) == "unfused" || text_in(v) == "local") r.asked.attention = "unfused"; }},
  };
}

std::vector<Key> precision_keys() {
  return {
      {"--fp16", {S::Precision}, [](const ExportRequest& h) { return flag(has_precision(h, {DataType::Fp16})); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.asked.precision = "fp16"; }},
      {"--bf16", {S::Precision},
       [](const ExportRequest& h) {
         return flag(has_precision(h, {DataType::Bf16, DataType::Fp8, DataType::Mxfp8, DataType::Nvfp4}));
       },
       [](Reading& r, const Value& v) { if (is_on(v)) r.asked.precision = "bf16"; }},
      {"--fp8-format", {S::Precision},
       [](const ExportRequest& h) {
         if (!has_precision(h, {DataType::Fp8, DataType::Mxfp8})) return Value();
         return Value(fp8_recipe_word(h) == "mxfp8" ? "e4m3" : "hybrid");
       },
       together},
      {"--fp8-recipe", {S::Precision, kRecipe},
       [](const ExportRequest& h) {
         return has_precision(h, {DataType::Fp8, DataType::Mxfp8}) ? Value(fp8_recipe_word(h)) : Value();
       },
       together},
      // Parameters are gathered in the format of the matrix products.
      {"--fp8-param-gather", {S::Precision},
       [](const ExportRequest& h) {
         return flag(h.sharded() && has_precision(h, {DataType::Fp8, DataType::Mxfp8}));
       },
       together},
      {"--fp4-format", {S::Precision},
       [](const ExportRequest& h) { return has_precision(h, {DataType::Nvfp4}) ? Value("e2m1") : Value(); },
       together},
  };
}
// clang-format on

std::vector<Key> all_keys() {
  return joined<Key>({parallel_keys(), batch_keys(), precision_keys(), optimizer_keys(),
                      software_keys(), megatron_model_keys(), megatron_other_keys()});
}

bool cuts_layers(const ExportRequest& h) {
  return h.degrees.tensor_out > 1 || h.degrees.context > 1;
}

bool runs_pairs(const ExportRequest& h) {
  return schedule_row(h.degrees.schedule).joins;
}

/// validate_args asserts 1 before Blackwell where layers are cut, and leaves it open beside
/// exchanges of experts, which ask for more; Megatron-FSDP asserts that it is not 1.
std::optional<std::string> max_connections(const ExportRequest& h) {
  if (megatron_fsdp(h)) return std::string();
  if (cuts_layers(h)) return "1";
  return runs_pairs(h) ? std::optional<std::string>("32") : std::nullopt;
}

std::vector<std::string> trial(const ExportRequest& h) {
  return {"--mock-data",
          "--tokenizer-type",
          "NullTokenizer",
          "--vocab-size",
          fmt::format("{}", h.model().embedding.vocab),
          "--train-iters",
          "20",
          "--lr",
          "1e-4",
          "--log-interval",
          "1",
          "--eval-iters",
          "0",
          "--log-throughput"};
}

std::vector<std::string> notes(const ExportRequest& h) {
  std::vector<std::string> result{
      "not in a plan: data, tokenizer, learning rate, initialisation, rotary base, checkpoints"};
  if (h.overlaps(Overlap::ExpertAllToAll) && !overlap_experts(h)) {
    result.emplace_back(
        "the prediction hides part of the expert all-to-all; Megatron-LM overlaps it only without "
        "full recomputation, and in a pipeline only with model chunks");
  }
  const auto& moe = h.model().moe;
  if (moe && moe->correction_bias) {
    result.emplace_back("not in a plan: scaling factor of the router");
  }
  if (h.overlaps(Overlap::TensorParallel) && h.degrees.tensor() > h.gpus_per_node()) {
    result.emplace_back(
        "the prediction hides tensor messages between nodes; user buffers do so inside one node");
  }
  const auto policy = h.problem.framework->precision.find(h.problem.precision);
  const bool narrow = policy != h.problem.framework->precision.end() &&
                      policy->second.reduction == DataType::Bf16 &&
                      policy->second.main_gradient == DataType::Fp32;
  if (narrow && h.degrees.data * h.degrees.context > 1) {
    result.emplace_back(
        "the prediction reduces gradients in bf16; Megatron-LM reduces what it accumulates, fp32 "
        "here: --main-grads bf16 predicts and exports --grad-reduce-in-bf16");
  }
  if (hides_tensor_messages(h)) {
    result.emplace_back("--tp-comm-overlap needs Transformer Engine with user buffers");
  }
  if (runs_pairs(h) && cuts_layers(h)) {
    result.emplace_back(
        "the prediction hides messages of experts beside those of tp and cp; before Blackwell "
        "Megatron-LM favours one of both: CUDA_DEVICE_MAX_CONNECTIONS 1, or 32 for experts");
  }
  return result;
}

Launch launch() {
  return {.script = "pretrain_gpt.py",
          .arguments = "\"${MEGATRON_ARGS[@]}\" \"${TRAIN_ARGS[@]}\"",
          .environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", max_connections}},
          .trial = trial};
}

}  // namespace

std::string layout_of(const std::vector<StageContent>& stages) {
  std::vector<std::string> words;
  for (const StageContent& stage : stages) {
    std::string word = stage.embedding ? "E" : "";
    if (stage.layers > 0) word += fmt::format("t*{}", stage.layers);
    if (stage.predictions > 0) word += fmt::format("m*{}", stage.predictions);
    words.push_back(word + (stage.head ? "L" : ""));
  }
  return fmt::format("{}", fmt::join(words, "|"));
}

Exporter megatron_exporter() {
  return {.title = "arguments of Megatron-LM",
          .checked = "NVIDIA/Megatron-LM@d98e8a64 (2026-08-22)",
          .framework = "megatron",
          .accepts =
              {{s(D::Schedule), {"1f1b", "interleaved", "interleaved-pairs", "pairs"}},
               {S::Precision, {"bf16", "fp16", "fp32", "fp8", "mxfp8", "nvfp4"}, By::Key, "fp32"},
               {S::Optimizer, {"adam", "sgd", "muon"}},
               {S::Attention, {"flash", "unfused"}, By::Key, "flash"},
               {S::RankOrder, {"tp-cp-dp-pp", "tp-cp-pp-dp"}, By::Key, "tp-cp-dp-pp"},
               {kMainGradients, {"bf16", "fp32"}, By::Key, "fp32"},
               {kRecipe, {"tensorwise", "delayed", "block", "mxfp8"}},
               {kGraphs, {"0", "1"}},
               {kStates, {"fp32", "bf16", "fp16", "fp8"}},
               {kOffload, megatron_offloads()},
               {kModules},
               {setting_of(D::Dispatcher)},
               {kRouting, {"balanced", "auxiliary", "real"}},
               {setting_of(Overlap::PipelineSend), {}, By::Key, kOn},
               {setting_of(Overlap::ContextRing), {kOn}, By::Target}},
          .documents = {{.keys = all_keys(), .array = "MEGATRON_ARGS"}},
          .launch = launch(),
          .lacks = megatron_lacks(),
          // arguments.py: validate_args
          .conflicts =
              {{"muon with ZeRO-2 or 3 (Megatron-FSDP)",
                [](const ExportRequest& h) { return h.optimizer == "muon" && megatron_fsdp(h); }},
               {"a format of moments (--optimizer-states) without a distributed optimizer (ZeRO)",
                [](const ExportRequest& h) {
                  return h.chosen.optimizer_states.has_value() && !h.sharded();
                }}},
          .notes = notes,
          .start = start_megatron,
          .settle = settle_megatron};
}

}  // namespace plansearch::exporters
