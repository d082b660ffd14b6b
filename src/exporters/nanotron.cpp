// SPDX-License-Identifier: Apache-2.0
// Source: huggingface/nanotron@2411b022 (2026-04-07) src/nanotron/config/parallelism_config.py,
// models_config.py: LlamaConfig, Qwen2Config; src/nanotron/parallel/tensor_parallel/nn.py:
// TensorParallelRowLinear (asynchronous communication in REDUCE_SCATTER mode only)
#include "exporters/fact.hpp"
#include "exporters/readers.hpp"
#include "schedule/table.hpp"

namespace plansearch::exporters {

// clang-format off
Facts nanotron_facts() {
  return {
      {"all_forward", {s(D::Schedule)},
       [](H h) { return Value(h.degrees.pipeline > 1 && value_of(s(D::Schedule), h) == "gpipe"); }},
      {"async_tensor_messages", {setting_of(Overlap::TensorParallel)},
       [](H h) { return Value(h.spreads_tokens() && h.overlaps(Overlap::TensorParallel)); },
       [](R r, V v) { r.hide(Overlap::TensorParallel, is_on(v)); }},
      {"fp32_main_grads", {S::Precision, chosen(plansearch::Setting::MainGradients)},
       [](H h) { return Value(h.chosen.main_grads.value_or("fp32") == "fp32"); },
       [](R r, V v) { if (!is_on(v)) r.asked.main_grads = "bf16"; }},
      {"adam", {}, [](H h) { return Value(h.optimizer == "adam"); }},
      // LlamaConfig has no biases; the Qwen 2 class is Llama with them.
      {"no_query_bias", {S::Model}, [](H h) { return Value(!h.model().attention.query_key_value_bias); }},
      {"tied", {S::Model}, [](H h) { return Value(h.model().embedding.tied); },
       [](R r, V v) { r.model.embedding.tied = is_on(v); }},
  };
}
// clang-format on

/// parallelism_config.py: ParallelismArgs.__post_init__; LlamaConfig.
void start_nanotron(Reading& r) {
  r.degrees.data = 0;
  r.degrees.micro_batches = 0;
  ModelDescription& m = r.model;
  m.norm.kind = NormKind::RmsNorm;
  m.mlp.gated = true;
  m.mlp.activation = Activation::Silu;
  m.attention.positions = PositionKind::Rotary;
}

void settle_nanotron(Reading& r) {
  AttentionDescription& a = r.model.attention;
  if (r.has_model && a.heads > 0) {
    if (a.kv_heads == 0) a.kv_heads = a.heads;
    if (r.model.hidden % a.heads != 0)
      throw Unsettled("num_attention_heads does not divide hidden_size", "--model NAME");
    a.head_size = r.model.hidden / a.heads;
  }
  PlanDegrees& d = r.degrees;
  if (d.pipeline > 1 && r.key_word("parallelism.pp_engine") != "1f1b")
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

}  // namespace plansearch::exporters
