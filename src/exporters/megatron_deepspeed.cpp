// SPDX-License-Identifier: Apache-2.0
// Megatron-DeepSpeed: arguments of its pretrain_gpt.py, and the DeepSpeed configuration they name.
//
// Keys and rules: deepspeedai/Megatron-DeepSpeed@4efb479d (2025-07-16)
//   megatron/arguments.py: validate_args, _add_network_size_args, _add_zero_args
//   megatron/model/gpt_model.py: GPTModelPipe (PipeModelDataParallelTopology, type:transformer)
//   megatron/core/parallel_state.py: initialize_model_parallel
// and deepspeedai/DeepSpeed@edaa7221 (2026-08-22) for the configuration.

#include <algorithm>

#include "base/names.hpp"
#include "exporters/megatron_model.hpp"
#include "exporters/megatron_reading.hpp"
#include "exporters/offload_words.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;
using M = ModelDescription;

bool any_bias(const M& m) {
  return m.attention.query_key_value_bias || m.attention.output_bias || m.mlp.bias;
}
bool all_biases(const M& m) {
  return m.attention.query_key_value_bias && m.attention.output_bias && m.mlp.bias;
}

// clang-format off
std::vector<Key> parallel_keys() {
  return {
      {"--deepspeed", {s(D::Zero)}, constant<true>,
       together},
      {"--zero-stage", {s(D::Zero)},
       [](const ExportRequest& h) {
         return Value(h.degrees.data * h.degrees.context > 1 ? static_cast<int>(h.degrees.zero) : 0);
       },
       together},
      {"--tensor-model-parallel-size", {s(D::TensorOut)}, degree<&PlanDegrees::tensor_out>},
      {"--sequence-parallel", {s(D::SequenceParallel)}, flag_of<&ExportRequest::spreads_tokens>,
       read_sequence_parallel},
      {"--pipeline-model-parallel-size", {s(D::Pipeline), s(D::Schedule)}, degree<&PlanDegrees::pipeline>},
      {"--no-pipeline-parallel", {s(D::Pipeline)},
       [](const ExportRequest& h) { return flag(h.degrees.pipeline == 1); },
       together},
      {"--ds-sequence-parallel-size", {s(D::Context), s(D::ContextKind)},
       [](const ExportRequest& h) { return h.degrees.context > 1 ? Value(h.degrees.context) : Value(); },
       [](Reading& r, const Value& v) { r.degrees.context = count_in(v); r.degrees.context_kind = ContextKind::Ulysses; }},
      {"--micro-batch-size", {s(D::MicroBatch)}, degree<&PlanDegrees::micro_batch>},
      {"--global-batch-size", {S::GlobalBatch, S::MicroBatches, s(D::Data), S::Gpus},
       kBatch},
      {"--seq-length", {S::SequenceLength}, kSequence},
      // Outside of its pipeline DeepSpeed recomputes what Megatron's own switches say.
      {"--recompute-granularity", {s(D::Recompute)},
       [](const ExportRequest& h) {
         return h.degrees.recompute == Recompute::None ? Value() : Value(to_text(h.degrees.recompute));
       },
       together},
      {"--recompute-method", {s(D::Recompute)},
       [](const ExportRequest& h) { return h.degrees.recompute == Recompute::Full ? Value("uniform") : Value(); },
       together},
      {"--deepspeed-activation-checkpointing", {s(D::Recompute)},
       [](const ExportRequest& h) { return flag(h.degrees.recompute == Recompute::Full); },
       together},
      {"--bf16", {S::Precision}, [](const ExportRequest& h) { return flag(h.problem.precision == DataType::Bf16); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.asked.precision = "bf16"; }},
      {"--fp16", {S::Precision}, [](const ExportRequest& h) { return flag(h.problem.precision == DataType::Fp16); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.asked.precision = "fp16"; }},
      {"--optimizer", {S::Optimizer}, [](const ExportRequest& h) { return Value(h.optimizer); },
       [](Reading& r, const Value& v) { r.asked.optimizer = text_in(v); }},
      {"--use-flash-attn-v2", {S::Attention}, [](const ExportRequest& h) { return flag(h.attention == "flash"); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.asked.attention = "flash"; }},
  };
}

std::vector<Key> model_keys() {
  const Setting model = S::Model;
  return {
      {"--num-layers", {model}, of_model<&ModelDescription::layers>},
      {"--hidden-size", {model}, of_model<&ModelDescription::hidden>},
      {"--ffn-hidden-size", {model}, [](const ExportRequest& h) { return Value(h.model().mlp.width); },
       [](Reading& r, const Value& v) { r.model.mlp.width = whole_number(v); }},
      {"--num-attention-heads", {model}, of_attention<&AttentionDescription::heads>},
      {"--num-key-value-heads", {model}, of_attention<&AttentionDescription::kv_heads>},
      {"--kv-channels", {model}, of_attention<&AttentionDescription::head_size>},
      {"--max-position-embeddings", {model},
       [](const ExportRequest& h) {
         return Value(std::max(h.model().max_positions.value_or(h.problem.seq_len), h.problem.seq_len));
       },
       [](Reading& r, const Value& v) { r.model.max_positions = whole_number(v); }},
      {"--use-rotary-position-embeddings", {model},
       [](const ExportRequest& h) { return flag(h.model().attention.positions == PositionKind::Rotary); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.model.attention.positions = PositionKind::Rotary; }},
      {"--normalization", {model},
       [](const ExportRequest& h) { return Value(h.model().norm.kind == NormKind::RmsNorm ? "rmsnorm" : "layernorm"); },
       [](Reading& r, const Value& v) { r.model.norm.kind = canonical_name(text_in(v)) == "rmsnorm" ? NormKind::RmsNorm : NormKind::LayerNorm; }},
      {"--swiglu", {model}, [](const ExportRequest& h) { return flag(h.model().mlp.gated); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.model.mlp.gated = true, r.model.mlp.activation = Activation::Silu; }},
      {"--squared-relu", {model},
       [](const ExportRequest& h) { return flag(h.model().mlp.activation == Activation::SquaredRelu); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.model.mlp.activation = Activation::SquaredRelu; }},
      {"--disable-bias-linear", {model}, [](const ExportRequest& h) { return flag(!any_bias(h.model())); },
       together},
      {"--untie-embeddings-and-output-weights", {model},
       [](const ExportRequest& h) { return flag(!h.model().embedding.tied); },
       [](Reading& r, const Value& v) { r.model.embedding.tied = !is_on(v); }},
      {"--hidden-dropout", {model}, of_model<&ModelDescription::dropout>},
      {"--attention-dropout", {model}, of_model<&ModelDescription::attention_dropout>},
  };
}
// clang-format on

std::vector<Trait> lacks() {
  const std::vector<Trait> experts{
      {"experts (its experts are another layer, not the one priced)",
       [](const M& m) { return m.moe.has_value(); }},
  };
  const std::vector<Trait> own{
      {"no positions (attention.positions)",
       [](const M& m) { return m.attention.positions == PositionKind::None; }},
      {"biases on some linear layers and not on others (attention.bias, mlp.bias)",
       [](const M& m) { return any_bias(m) && !all_biases(m); }},
      {"a gate that is not SiLU (mlp.activation)",
       [](const M& m) { return m.mlp.gated && m.mlp.activation != Activation::Silu; }},
      {"an activation that is neither GELU nor squared ReLU (mlp.activation)",
       [](const M& m) {
         return !m.mlp.gated && m.mlp.activation != Activation::Gelu &&
                m.mlp.activation != Activation::SquaredRelu;
       }},
  };
  return joined<Trait>({beyond_decoders(), experts, beyond_first_decoders(), own});
}

/// validate_args wants it with sequence parallelism.
std::optional<std::string> max_connections(const ExportRequest& h) {
  return h.degrees.tensor_out > 1 ? std::optional<std::string>("1") : std::nullopt;
}

/// arguments.py: older than Megatron-LM's, with ZeRO and Ulysses of its own.
void start(Reading& r) {
  start_megatron(r);
  r.asked.framework = "megatron-deepspeed";
  r.asked.attention = "unfused";
}

/// Its stages are cut by DeepSpeed; everything else follows as in Megatron-LM.
void settle(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (r.model.attention.kv_heads > 0 && !r.says("--group-query-attention"))
    r.said["--group-query-attention"] = Value(true);
  settle_megatron(r);
  if (r.says("--zero-stage"))
    d.zero = static_cast<ZeroStage>(whole_number(r.value("--zero-stage"), 0, 3));
  if (is_on(r.value("--deepspeed-activation-checkpointing")) && !r.says("--recompute-granularity"))
    d.recompute = Recompute::Full;
  for (const char* key : {"--use-flash-attn-v1", "--use-flash-attn-triton"})
    if (is_on(r.value(key))) r.asked.attention = "flash";
  r.asked.overlap.reset();
  r.hides = {};
  if (r.says("zero_optimization.stage") || r.says("zero_optimization.overlap_comm")) {
    settle_deepspeed(r);
    r.hides[static_cast<std::size_t>(Overlap::ParameterGather)].reset();  // prefetched in any case
    settle_overlap(r);
  }
  if (is_on(r.value("--deepspeed"))) settle_unsharded_bf16(r);
  if (r.asked.main_grads == "fp16" && r.says("data_types.grad_accum_dtype") == false)
    r.asked.main_grads.reset();
}

std::vector<Key> other_keys() {
  const Read known = together;
  std::vector<Key> keys = {
      only_read("--use-flash-attn-v1", known), only_read("--use-flash-attn-triton", known),
      only_read("--position-embedding-type", read_positions),
      only_read("--context-parallel-size", known), only_read("--use-distributed-optimizer", known)};
  for (const Key& key : megatron_other_keys()) {
    if (key.name != "--use-rotary-position-embeddings") keys.push_back(key);
  }
  return keys;
}

std::vector<std::string> notes(const ExportRequest&) {
  return {
      "not in a plan: data, tokenizer, learning rate, initialisation, rotary base, checkpoints"};
}

Launch launch() {
  return {.script = "pretrain_gpt.py",
          .arguments =
              "\"${MEGATRON_ARGS[@]}\" --deepspeed_config \"$PLAN_CONFIG\" \"${TRAIN_ARGS[@]}\"",
          .environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", max_connections}}};
}

}  // namespace

Exporter megatron_deepspeed_exporter() {
  return {.title = "arguments of Megatron-DeepSpeed and its DeepSpeed configuration",
          .checked = "deepspeedai/Megatron-DeepSpeed@4efb479d (2025-07-16)",
          .framework = "megatron-deepspeed",
          .accepts = {{s(D::ContextKind), {"ulysses"}},
                      {s(D::Schedule), {"1f1b"}},
                      {S::Precision, {"bf16", "fp16", "fp32"}, By::Key, "fp32"},
                      {S::Optimizer, {"adam", "sgd"}},
                      {S::Attention, {"flash", "unfused"}, By::Key, "unfused"},
                      {S::RankOrder, {"tp-cp-dp-pp"}, By::Target},
                      {S::Layers, {kOwnSplit}, By::Target},
                      {kMainGradients, {"bf16", "fp16", "fp32"}},
                      {kOffload, deepspeed_offloads()}},
          .documents = {{.keys = deepspeed_keys(), .write = write_json, .file = "ds_config.json"},
                        {.keys = joined<Key>({parallel_keys(), model_keys(), other_keys()}),
                         .array = "MEGATRON_ARGS"}},
          .launch = launch(),
          .lacks = lacks(),
          .conflicts = {unsharded_bf16()},
          .notes = notes,
          .start = start,
          .settle = settle};
}

}  // namespace plansearch::exporters
