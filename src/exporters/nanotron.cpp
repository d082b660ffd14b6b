// SPDX-License-Identifier: Apache-2.0
// nanotron: the YAML file of run_train.py.
//
// Keys and rules: huggingface/nanotron@2411b022 (2026-04-07)
//   src/nanotron/config/config.py: Config.__post_init__, get_config_from_dict (strict)
//   src/nanotron/config/parallelism_config.py, models_config.py: LlamaConfig, Qwen2Config
//   src/nanotron/parallel/context.py: ParallelContext (rank order)
//   src/nanotron/parallel/tensor_parallel/nn.py: TensorParallelRowLinear (asynchronous
//   communication in REDUCE_SCATTER mode only)
#include <fmt/format.h>

#include <algorithm>

#include "base/names.hpp"
#include "exporters/exporter.hpp"
#include "exporters/megatron_model.hpp"
#include "schedule/table.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;
using M = ModelDescription;

/// LlamaConfig has no biases; the Qwen 2 class is Llama with them.
bool is_llama(const ExportRequest& h) {
  return !h.model().attention.query_key_value_bias;
}

// clang-format off
std::vector<Key> plan_keys() {
  return {
      {"general.project", {}, [](const ExportRequest&) { return Value("plansearch"); }},
      {"general.run", {}, [](const ExportRequest& h) { return Value(fmt::format("plan-{}", h.identity)); }},
      {"general.seed", {}, constant<42>},
      {"checkpoints.checkpoints_path", {S::Checkpoints}, checkpoint_folder, together},
      {"checkpoints.resume_checkpoint_path", {S::Checkpoints}, checkpoint_folder, together},
      {"checkpoints.checkpoint_interval", {S::Checkpoints}, checkpoint_steps, together},
      {"parallelism.dp", {s(D::Data), S::Gpus, S::GlobalBatch}, degree<&PlanDegrees::data>},
      {"parallelism.pp", {s(D::Pipeline)}, degree<&PlanDegrees::pipeline>},
      {"parallelism.pp_engine", {s(D::Schedule)},
       [](const ExportRequest& h) {
         const bool all_forward = h.degrees.pipeline > 1 && value_of(s(D::Schedule), h) == "gpipe";
         return Value(all_forward ? "afab" : "1f1b");
       },
       [](Reading& r, const Value& v) { if (r.degrees.pipeline > 1) r.degrees.schedule = find_schedule(text_in(v) == "1f1b" ? "1f1b" : "gpipe").value(); }},
      {"parallelism.tp", {s(D::TensorOut)}, degree<&PlanDegrees::tensor_out>},
      {"parallelism.tp_mode", {s(D::SequenceParallel)},
       [](const ExportRequest& h) {
         return Value(h.degrees.sequence_parallel == SequenceParallel::On ? "REDUCE_SCATTER" : "ALL_REDUCE");
       },
       [](Reading& r, const Value& v) { r.degrees.sequence_parallel = canonical_name(text_in(v)) == "reduce-scatter" ? SequenceParallel::On : SequenceParallel::Off; }},
      {"parallelism.tp_linear_async_communication", {setting_of(Overlap::TensorParallel)},
       [](const ExportRequest& h) {
         return Value(h.degrees.sequence_parallel == SequenceParallel::On &&
                      h.overlaps(Overlap::TensorParallel));
       },
       [](Reading& r, const Value& v) { r.hide(Overlap::TensorParallel, !v.is_null() && is_on(v)); }},
      {"parallelism.context_parallel_size", {s(D::Context), s(D::ContextKind)}, degree<&PlanDegrees::context>},
      {"parallelism.expert_parallel_size", {s(D::Expert)}, degree<&PlanDegrees::expert>},
      {"parallelism.recompute_layer", {s(D::Recompute)},
       [](const ExportRequest& h) { return Value(h.degrees.recompute == Recompute::Full); },
       [](Reading& r, const Value& v) { r.degrees.recompute = is_on(v) ? Recompute::Full : Recompute::None; }},
      {"tokens.sequence_length", {S::SequenceLength}, kSequence},
      {"tokens.micro_batch_size", {s(D::MicroBatch), S::GlobalBatch}, degree<&PlanDegrees::micro_batch>},
      {"tokens.batch_accumulation_per_replica", {S::MicroBatches, S::GlobalBatch},
       degree<&PlanDegrees::micro_batches>},
      {"tokens.train_steps", {}, constant<20>},
      {"optimizer.zero_stage", {s(D::Zero)},
       [](const ExportRequest& h) {
         return Value(h.degrees.data * h.degrees.context > 1 ? static_cast<int>(h.degrees.zero) : 0);
       },
       [](Reading& r, const Value& v) { r.degrees.zero = static_cast<ZeroStage>(whole_number(v, 0, 3)); }},
      {"optimizer.accumulate_grad_in_fp32", {S::Precision, setting_of(plansearch::Setting::MainGradients)},
       [](const ExportRequest& h) { return Value(h.chosen.main_grads.value_or("fp32") == "fp32"); },
       [](Reading& r, const Value& v) { if (!is_on(v)) r.asked.main_grads = "bf16"; }},
      {"optimizer.optimizer_factory.name", {S::Optimizer},
       [](const ExportRequest& h) { return Value(h.optimizer == "adam" ? "adamW" : "sgd"); },
       [](Reading& r, const Value& v) { r.asked.optimizer = text_in(v) == "sgd" ? "sgd" : "adam"; }},
  };
}

std::vector<Key> optimizer_keys() {
  return {
      {"optimizer.optimizer_factory.adam_beta1", {},
       [](const ExportRequest& h) { return h.optimizer == "adam" ? Value(0.9) : Value(); }},
      {"optimizer.optimizer_factory.adam_beta2", {},
       [](const ExportRequest& h) { return h.optimizer == "adam" ? Value(0.95) : Value(); }},
      {"optimizer.optimizer_factory.adam_eps", {},
       [](const ExportRequest& h) { return h.optimizer == "adam" ? Value(1e-8) : Value(); }},
      {"optimizer.optimizer_factory.torch_adam_is_fused", {},
       [](const ExportRequest& h) { return h.optimizer == "adam" ? Value(true) : Value(); }},
      {"optimizer.weight_decay", {}, [](const ExportRequest&) { return Value(0.1); }},
      {"optimizer.clip_grad", {}, [](const ExportRequest&) { return Value(1.0); }},
      {"optimizer.learning_rate_scheduler.learning_rate", {}, [](const ExportRequest&) { return Value(1e-4); }},
      {"optimizer.learning_rate_scheduler.lr_warmup_steps", {}, constant<2>},
      {"optimizer.learning_rate_scheduler.lr_warmup_style", {}, [](const ExportRequest&) { return Value("linear"); }},
      {"optimizer.learning_rate_scheduler.lr_decay_style", {}, [](const ExportRequest&) { return Value("cosine"); }},
      {"data_stages", {},
       [](const ExportRequest&) {
         // No dataset: nanotron makes tokens up.
         return Value::parse(R"([{"name": "trial", "start_training_step": 1,
                                  "data": {"dataset": null, "seed": 42, "num_loading_workers": 1}}])");
       }},
  };
}

std::vector<Key> model_keys() {
  const Setting model = S::Model;
  return {
      {"model.dtype", {S::Precision},
       [](const ExportRequest& h) { return Value(h.problem.precision == DataType::Fp32 ? "float32" : "bfloat16"); },
       [](Reading& r, const Value& v) { r.asked.precision = text_in(v) == "float32" ? "fp32" : text_in(v) == "float16" ? "fp16" : "bf16"; }},
      {"model.init_method.std", {}, [](const ExportRequest&) { return Value(0.02); }},
      {"model.make_vocab_size_divisible_by", {model}, constant<1>,
       together},
      {"model.model_config.is_llama_config", {model},
       [](const ExportRequest& h) { return is_llama(h) ? Value(true) : Value(); },
       together},
      {"model.model_config.is_qwen2_config", {model},
       [](const ExportRequest& h) { return is_llama(h) ? Value() : Value(true); },
       together},
      {"model.model_config._attn_implementation", {s(D::ContextKind), S::Attention},
       [](const ExportRequest&) { return Value("flash_attention_2"); },
       together},
      {"model.model_config.attention_bias", {model}, of_attention<&AttentionDescription::query_key_value_bias>},
      {"model.model_config.hidden_act", {model}, [](const ExportRequest&) { return Value("silu"); },
       together},
      {"model.model_config.hidden_size", {model}, of_model<&ModelDescription::hidden>},
      {"model.model_config.intermediate_size", {model}, [](const ExportRequest& h) { return Value(h.model().mlp.width); },
       [](Reading& r, const Value& v) { r.model.mlp.width = whole_number(v); }},
      {"model.model_config.max_position_embeddings", {model},
       [](const ExportRequest& h) {
         return Value(std::max(h.model().max_positions.value_or(h.problem.seq_len), h.problem.seq_len));
       },
       [](Reading& r, const Value& v) { r.model.max_positions = whole_number(v); }},
      {"model.model_config.num_attention_heads", {model}, of_attention<&AttentionDescription::heads>},
      {"model.model_config.num_key_value_heads", {model}, of_attention<&AttentionDescription::kv_heads>},
      {"model.model_config.num_hidden_layers", {model}, of_model<&ModelDescription::layers>},
      {"model.model_config.tie_word_embeddings", {model},
       [](const ExportRequest& h) { return Value(h.model().embedding.tied); },
       [](Reading& r, const Value& v) { r.model.embedding.tied = is_on(v); }},
      {"model.model_config.vocab_size", {model}, [](const ExportRequest& h) { return Value(h.model().embedding.vocab); },
       [](Reading& r, const Value& v) { r.model.embedding.vocab = whole_number(v); }},
      {"model.model_config.rope_theta", {}, [](const ExportRequest&) { return Value(10000.0); }},
      {"model.model_config.rms_norm_eps", {}, [](const ExportRequest&) { return Value(1e-5); }},
  };
}
// clang-format on

std::vector<Trait> lacks() {
  const std::vector<Trait> experts{
      {"experts (nanotron's are another layer, not the one priced)",
       [](const M& m) { return m.moe.has_value(); }},
  };
  const std::vector<Trait> own{
      {"positions that are not rotary (attention.positions)",
       [](const M& m) { return m.attention.positions != PositionKind::Rotary; }},
      {"layer norms with a mean (norm.kind)",
       [](const M& m) { return m.norm.kind != NormKind::RmsNorm; }},
      {"an MLP without a SiLU gate (mlp.gated, .activation)",
       [](const M& m) { return !m.mlp.gated || m.mlp.activation != Activation::Silu; }},
      {"biases behind attention or in the MLP (attention.bias, mlp.bias)",
       [](const M& m) { return m.attention.output_bias || m.mlp.bias; }},
      {"heads that are not hidden / heads wide (attention.head_size)",
       [](const M& m) { return m.attention.heads * m.attention.head_size != m.hidden; }},
      {"dropout", [](const M& m) { return m.dropout > 0.0 || m.attention_dropout > 0.0; }},
  };
  return joined<Trait>({beyond_decoders(), experts, beyond_first_decoders(), own});
}

/// run_train.py's examples set it; nanotron's asynchronous linear layers rely on it.
std::optional<std::string> max_connections(const ExportRequest& h) {
  return h.degrees.tensor_out > 1 ? std::optional<std::string>("1") : std::nullopt;
}

/// parallelism_config.py: ParallelismArgs.__post_init__; LlamaConfig.
void start(Reading& r) {
  r.asked.framework = "nanotron";
  r.asked.optimizer = "adam";
  r.asked.precision = "bf16";
  r.degrees.data = 0;
  r.degrees.micro_batches = 0;
  ModelDescription& m = r.model;
  m.norm.kind = NormKind::RmsNorm;
  m.mlp.gated = true;
  m.mlp.activation = Activation::Silu;
  m.attention.positions = PositionKind::Rotary;
}

void settle(Reading& r) {
  AttentionDescription& a = r.model.attention;
  if (r.has_model && a.heads > 0) {
    if (a.kv_heads == 0) a.kv_heads = a.heads;
    if (r.model.hidden % a.heads != 0)
      throw Unsettled("num_attention_heads does not divide hidden_size", "--model NAME");
    a.head_size = r.model.hidden / a.heads;
  }
  PlanDegrees& d = r.degrees;
  if (d.pipeline > 1 &&
      !(r.says("parallelism.pp_engine") && text_in(r.value("parallelism.pp_engine")) == "1f1b"))
    d.schedule = find_schedule("gpipe").value();
  if (d.pipeline == 1) d.schedule = kDefaultSchedule;
  if (d.tensor_out == 1) d.sequence_parallel = SequenceParallel::Off;
  settle_ranks(r);
  settle_batch(r);
  // tensor_parallel/functional.py: all-reduces have no asynchronous form that a key chooses.
  r.hide(Overlap::TensorParallel, r.hidden(Overlap::TensorParallel));
  if (d.sequence_parallel == SequenceParallel::Off) r.hides = {};
  settle_overlap(r);
}

std::vector<std::string> notes(const ExportRequest&) {
  return {
      "not in a plan: data, tokenizer, checkpoints; data_stages without a dataset trains on "
      "made-up tokens"};
}

Launch launch() {
  return {.script = "run_train.py",
          .arguments = "--config-file \"$PLAN_CONFIG\" \"${TRAIN_ARGS[@]}\"",
          .environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", max_connections}}};
}

}  // namespace

Exporter nanotron_exporter() {
  return {
      .title = "YAML file of nanotron",
      .checked = "huggingface/nanotron@2411b022 (2026-04-07)",
      .framework = "nanotron",
      .accepts = {{s(D::Context), {"1"}},  // no run starts with more: docs/legality/nanotron.csv
                  {s(D::ContextKind), {"ring"}},
                  {s(D::Expert), {"1"}},
                  {s(D::Zero), {"0", "1"}},
                  {s(D::Recompute), {"none", "full"}},
                  {s(D::Schedule), {"1f1b", "gpipe"}},
                  {S::Precision, {"bf16", "fp32"}},
                  {S::Optimizer, {"adam", "sgd"}},
                  {S::Attention, {"flash"}},
                  {S::RankOrder, {"tp-cp-dp-pp"}, By::Target},
                  {S::Layers, {kOwnSplit}, By::Target},
                  {setting_of(plansearch::Setting::MainGradients), {"fp32", "bf16"}}},
      .documents = {{.keys = joined<Key>({plan_keys(), optimizer_keys(), model_keys()}),
                     .write = write_yaml,
                     .file = "nanotron.yaml"}},
      .launch = launch(),
      .lacks = lacks(),
      .notes = notes,
      .start = start,
      .settle = settle};
}

}  // namespace plansearch::exporters
