// SPDX-License-Identifier: Apache-2.0
// Source: NVIDIA/Megatron-LM@d98e8a64 megatron/training/arguments.py: _add_network_size_args,
// _add_moe_args, _add_mla_args; megatron/core/transformer/transformer_config.py.
#include "exporters/megatron_model.hpp"
#include "exporters/megatron_reading.hpp"
#include "exporters/megatron_words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace plansearch::exporters {
namespace {

using M = ModelDescription;

bool mlp_bias(const M& m) {
  return m.moe ? m.moe->expert_bias : m.mlp.bias;
}
/// Megatron-LM has biases everywhere, nowhere, or on queries, keys and values only.
bool bias_everywhere(const M& m) {
  return m.attention.query_key_value_bias && m.attention.output_bias && mlp_bias(m);
}
bool bias_of_queries_only(const M& m) {
  return m.attention.query_key_value_bias && !m.attention.output_bias && !mlp_bias(m);
}
bool bias_nowhere(const M& m) {
  return !m.attention.query_key_value_bias && !m.attention.output_bias && !mlp_bias(m);
}
/// Positions the embedding or the rotary table covers.
std::int64_t positions(const ExportRequest& h) {
  const M& m = h.model();
  if (m.attention.positions == PositionKind::Learned) return m.embedding.position_rows;
  return std::max(m.max_positions.value_or(h.problem.seq_len), h.problem.seq_len);
}
/// Whether no layer has a dense MLP, whose width would be another.
bool experts_everywhere(const M& m) {
  return m.moe && m.moe->leading_dense == 0 && m.moe->every == 1 && m.moe->dense_layers.empty() &&
         m.moe->layers.empty();
}
bool clamped_gate(const M& m) {
  return m.mlp.gated && m.mlp.activation == Activation::ClampedSilu;
}
/// "([0]*3+[1]*58)"
std::string expert_layers(const M& m) {
  const std::int64_t dense = m.moe->leading_dense;
  return fmt::format("([0]*{}+[1]*{})", dense, m.layers - dense);
}

/// Whatever the keys below and the lists of what is lacking do not know: a field that is added to
/// descriptions is refused here until someone says what becomes of it.
bool has_unknown_parts(M m) {
  const M none;
  m.name = m.source = {};
  m.layers = m.hidden = m.mtp_layers = 0;
  m.stack = none.stack;
  m.max_positions = none.max_positions;
  m.dropout = m.attention_dropout = 0.0;
  m.decoder = none.decoder;
  m.vision = none.vision;
  m.graph = none.graph;
  m.mlp = none.mlp;
  auto& a = m.attention;
  a.heads = a.kv_heads = a.head_size = a.relative_buckets = a.full_attention_every = 0;
  a.query_key_value_bias = a.output_bias = a.sinks = false;
  a.fused_projection = a.repeats_heads = false;  // how the model's own code runs, not what it is
  a.qk_norm = QkNorm::None;
  a.positions = PositionKind::None;
  a.window.reset();
  a.window_kind = none.attention.window_kind;
  a.leading_full = 0;
  a.full_layers.clear();
  a.latent.reset();
  m.norm.first_norm = none.norm.first_norm;
  m.norm.kind = none.norm.kind;
  m.norm.placement = none.norm.placement;
  m.norm.final_norm = none.norm.final_norm;
  auto& e = m.embedding;
  e.vocab = e.position_rows = e.token_types = 0;
  e.tied = e.norm = e.head_bias = e.pooler = false;
  e.width.reset();
  e.head_transform = HeadTransform::None;
  m.moe.reset();  // every field has its key or its line below
  auto& t = m.training;
  t.assumed = none.training.assumed;
  t.seq_len = t.global_batch = 0;
  t.precision.reset();
  t.optimizer = none.training.optimizer;
  t.frozen.clear();
  t.lora.reset();  // a setting (export_request.hpp)
  return !(m == none);
}

bool limited(const ExportRequest& h) {
  return h.model().moe && h.model().moe->groups > 1;
}

constexpr Setting kDispatcher = setting_of(Degree::Dispatcher);
constexpr Setting kRouting = setting_of(plansearch::Setting::Routing);

// clang-format off
std::vector<Key> trunk_keys() {
  const Setting model = Setting::Model;
  return {
      {"--num-layers", {model}, of_model<&ModelDescription::layers>},
      {"--hidden-size", {model}, of_model<&ModelDescription::hidden>},
      {"--ffn-hidden-size", {model},
       [](const ExportRequest& h) {
         const M& m = h.model();
         return Value(m.mlp.width > 0 && !experts_everywhere(m) ? m.mlp.width : m.moe->expert_width);
       },
       [](Reading& r, const Value& v) { r.model.mlp.width = whole_number(v); }},
      {"--max-position-embeddings", {model}, value_from<positions>,
       [](Reading& r, const Value& v) { r.model.max_positions = whole_number(v); }},
      {"--position-embedding-type", {model},
       [](const ExportRequest& h) {
         if (h.model().attention.positions == PositionKind::Learned) return Value("learned_absolute");
         return Value(h.model().attention.positions == PositionKind::Rotary ? "rope" : "none");
       },
       read_positions},
      {"--normalization", {model},
       [](const ExportRequest& h) { return Value(h.model().norm.kind == NormKind::RmsNorm ? "RMSNorm" : "LayerNorm"); },
       [](Reading& r, const Value& v) { r.model.norm.kind = text_in(v) == "RMSNorm" ? NormKind::RmsNorm : NormKind::LayerNorm; }},
      {"--swiglu", {model},
       [](const ExportRequest& h) { return flag(h.model().mlp.gated && !clamped_gate(h.model())); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.model.mlp.gated = true, r.model.mlp.activation = Activation::Silu; }},
      // The gate of gpt-oss: x sigmoid(1.702 x) (y + 1), both halves clamped at 7.
      {"--quick-geglu", {model}, [](const ExportRequest& h) { return flag(clamped_gate(h.model())); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.model.mlp.gated = true, r.model.mlp.activation = Activation::ClampedSilu; }},
      {"--glu-linear-offset", {model},
       [](const ExportRequest& h) { return clamped_gate(h.model()) ? Value(1.0) : Value(); },
       together},
      {"--activation-func-clamp-value", {model},
       [](const ExportRequest& h) { return clamped_gate(h.model()) ? Value(7.0) : Value(); },
       together},
      {"--squared-relu", {model},
       [](const ExportRequest& h) { return flag(h.model().mlp.activation == Activation::SquaredRelu); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.model.mlp.activation = Activation::SquaredRelu; }},
      {"--disable-bias-linear", {model}, [](const ExportRequest& h) { return flag(!bias_everywhere(h.model())); },
       together},
      {"--add-qkv-bias", {model}, [](const ExportRequest& h) { return flag(bias_of_queries_only(h.model())); },
       together},
      {"--untie-embeddings-and-output-weights", {model},
       [](const ExportRequest& h) { return flag(!h.model().embedding.tied); },
       [](Reading& r, const Value& v) { r.model.embedding.tied = !is_on(v); }},
      {"--hidden-dropout", {model}, of_model<&ModelDescription::dropout>},
      {"--attention-dropout", {model}, of_model<&ModelDescription::attention_dropout>},
      {"--mtp-num-layers", {model},
       [](const ExportRequest& h) { return h.model().mtp_layers > 0 ? Value(h.model().mtp_layers) : Value(); },
       [](Reading& r, const Value& v) { r.model.mtp_layers = whole_number(v, 0); }},
  };
}

std::vector<Key> attention_keys() {
  const Setting model = Setting::Model;
  return {
      {"--num-attention-heads", {model}, of_attention<&AttentionDescription::heads>},
      {"--group-query-attention", {model},
       [](const ExportRequest& h) {
         const auto& a = h.model().attention;
         return flag(!a.latent && a.kv_heads != a.heads);
       },
       together},
      {"--num-query-groups", {model},
       [](const ExportRequest& h) {
         const auto& a = h.model().attention;
         return !a.latent && a.kv_heads != a.heads ? Value(a.kv_heads) : Value();
       },
       [](Reading& r, const Value& v) { r.model.attention.kv_heads = whole_number(v); }},
      {"--kv-channels", {model},
       [](const ExportRequest& h) {
         return h.model().attention.latent ? Value() : Value(h.model().attention.head_size);
       },
       [](Reading& r, const Value& v) { r.model.attention.head_size = whole_number(v); }},
      {"--qk-layernorm", {model},
       [](const ExportRequest& h) {
         // The two norms of the latents of DeepSeek are this switch too.
         return flag(h.model().attention.qk_norm == QkNorm::PerHead || h.model().attention.latent);
       },
       together},
      {"--window-size", {model},
       [](const ExportRequest& h) {
         const auto& window = h.model().attention.window;
         return window ? Value(fmt::format("{},0", *window - 1)) : Value();
       },
       read_window},
      {"--window-attn-skip-freq", {model},
       [](const ExportRequest& h) {
         const auto& a = h.model().attention;
         return a.window && a.full_attention_every > 0 ? Value(a.full_attention_every) : Value();
       },
       [](Reading& r, const Value& v) { r.model.attention.full_attention_every = whole_number(v); }},
      {"--softmax-type", {model},
       [](const ExportRequest& h) { return h.model().attention.sinks ? Value("learnable") : Value(); },
       [](Reading& r, const Value& v) { r.model.attention.sinks = text_in(v) == "learnable"; }},
  };
}

std::vector<Key> latent_keys() {
  const Setting model = Setting::Model;
  return {
      {"--multi-latent-attention", {model},
       [](const ExportRequest& h) { return flag(h.model().attention.latent.has_value()); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.latent(); }},
      {"--q-lora-rank", {model},
       [](const ExportRequest& h) {
         const auto& latent = h.model().attention.latent;
         return latent && latent->query_rank ? Value(*latent->query_rank) : Value();
       },
       [](Reading& r, const Value& v) { r.latent().query_rank = whole_number(v); }},
      {"--kv-lora-rank", {model}, of_latent<&LatentAttention::kv_rank>},
      {"--qk-head-dim", {model}, of_latent<&LatentAttention::nope_size>},
      {"--qk-pos-emb-head-dim", {model}, of_latent<&LatentAttention::rope_size>},
      {"--v-head-dim", {model}, of_latent<&LatentAttention::value_size>},
  };
}

std::vector<Key> expert_keys() {
  const Setting model = Setting::Model;
  return {
      {"--num-experts", {model}, of_experts<&MoeDescription::experts>},
      {"--moe-router-topk", {model}, of_experts<&MoeDescription::top_k>},
      {"--moe-ffn-hidden-size", {model}, of_experts<&MoeDescription::expert_width>},
      {"--moe-layer-freq", {model},
       [](const ExportRequest& h) {
         if (!h.model().moe) return Value();
         if (h.model().moe->leading_dense > 0) return Value(expert_layers(h.model()));
         return h.model().moe->every > 1 ? Value(h.model().moe->every) : Value();
       },
       read_expert_layers},
      {"--moe-shared-expert-intermediate-size", {model},
       [](const ExportRequest& h) {
         return h.model().moe && h.model().moe->shared_width > 0 ? Value(h.model().moe->shared_width) : Value();
       },
       [](Reading& r, const Value& v) { r.experts().shared_width = whole_number(v, 0); }},
      {"--moe-shared-expert-gate", {model},
       [](const ExportRequest& h) { return flag(h.model().moe && h.model().moe->shared_gate); },
       [](Reading& r, const Value& v) { r.experts().shared_gate = is_on(v); }},
  };
}

std::vector<Key> routing_keys() {
  const Setting model = Setting::Model;
  return {
      {"--moe-router-enable-expert-bias", {model},
       [](const ExportRequest& h) { return flag(h.model().moe && h.model().moe->correction_bias); },
       [](Reading& r, const Value& v) { r.experts().correction_bias = is_on(v); }},
      {"--moe-router-score-function", {model},
       [](const ExportRequest& h) {
         return h.model().moe && h.model().moe->correction_bias ? Value("sigmoid") : Value();
       },
       together},
      {"--moe-router-dtype", {model},
       [](const ExportRequest& h) { return h.model().moe && h.model().moe->fp32_router ? Value("fp32") : Value(); },
       [](Reading& r, const Value& v) { r.experts().fp32_router = text_in(v) == "fp32"; }},
      {"--moe-router-pre-softmax", {model},
       [](const ExportRequest& h) { return flag(h.model().moe && h.model().moe->top_k == 1); },
       together},
      {"--moe-expert-capacity-factor", {model},
       [](const ExportRequest& h) {
         return h.model().moe && h.model().moe->capacity_factor ? Value(*h.model().moe->capacity_factor) : Value();
       },
       [](Reading& r, const Value& v) { r.experts().capacity_factor = real_number(v); }},
      {"--moe-router-num-groups", {model},
       [](const ExportRequest& h) { return limited(h) ? Value(h.model().moe->groups) : Value(); },
       [](Reading& r, const Value& v) { r.experts().groups = whole_number(v); }},
      {"--moe-router-group-topk", {model},
       [](const ExportRequest& h) { return limited(h) ? Value(h.model().moe->top_groups) : Value(); },
       [](Reading& r, const Value& v) { r.experts().top_groups = whole_number(v); }},
      {"--moe-router-force-load-balancing", {kRouting},
       [](const ExportRequest& h) {
         const auto& chosen = h.problem.framework->routing;
         return flag(chosen && chosen->name == "balanced");
       },
       [](Reading& r, const Value& v) { if (is_on(v)) r.asked.routing = "balanced"; }},
      {"--moe-grouped-gemm", {model}, [](const ExportRequest& h) { return flag(h.model().moe.has_value()); },
       together},
      {"--moe-token-dispatcher-type", {model, kDispatcher},
       dispatcher_word,
       together},
      {"--moe-flex-dispatcher-backend", {kDispatcher},
       [](const ExportRequest& h) {
         const TokenDispatcher& chosen = dispatcher_of(*h.problem.framework, h.degrees.dispatcher);
         return h.model().moe && chosen.path == TokenPath::Nodes ? Value(chosen.name) : Value();
       },
       together},
  };
}
// clang-format on

}  // namespace

std::vector<Key> megatron_model_keys() {
  std::vector<Key> keys = trunk_keys();
  for (auto part : {attention_keys(), latent_keys(), expert_keys(), routing_keys()})
    keys.insert(keys.end(), part.begin(), part.end());
  return keys;
}

std::vector<Trait> beyond_decoders() {
  return {
      {"an encoder or images; only decoders of text go there (stack)",
       [](const M& m) {
         return (m.stack != StackKind::Decoder && !m.graph) || m.vision || m.decoder;
       }},
      {"operators of its own, where only decoders of text go (blocks)",
       [](const M& m) { return m.graph != nullptr; }},
      {"frozen parameters (training.frozen)",
       [](const M& m) { return !m.training.frozen.empty(); }},
      {"an embedding of another width (embedding.width)",
       [](const M& m) { return m.embedding.width.has_value(); }},
      {"token types, a norm or a pooler at its embedding (embedding.token_types, .norm, .pooler)",
       [](const M& m) {
         return m.embedding.token_types > 0 || m.embedding.norm || m.embedding.pooler;
       }},
      {"a bias on its logits (embedding.head_bias)",
       [](const M& m) { return m.embedding.head_bias; }},
      {"no norm at its end (norm.final)", [](const M& m) { return !m.norm.final_norm; }},
      {"norms elsewhere than before each sublayer (norm.placement)",
       [](const M& m) { return m.norm.placement != NormPlacement::Pre; }},
      {"norms without bias or weight (norm.kind)",
       [](const M& m) {
         return m.norm.kind != NormKind::LayerNorm && m.norm.kind != NormKind::RmsNorm;
       }},
      {"positions that are biases (ALiBi, relative) (attention.positions)",
       [](const M& m) {
         return m.attention.positions == PositionKind::Alibi ||
                m.attention.positions == PositionKind::Relative;
       }},
      {"norms of queries and keys that are not one weight for all heads (attention.qk_norm)",
       [](const M& m) {
         return m.attention.qk_norm != QkNorm::None && m.attention.qk_norm != QkNorm::PerHead;
       }},
      {"a layer between its last norm and the logits (embedding.head_transform)",
       [](const M& m) { return m.embedding.head_transform != HeadTransform::None; }},
      {"logits of some positions only (embedding.predicted)",
       [](const M& m) { return m.embedding.predicted < 1.0; }},
      {"a first layer without a norm (norm.first)", [](const M& m) { return !m.norm.first_norm; }},
      {"windows in chunks, or full attention by a list of layers (attention.window_kind, "
       ".leading_full, .layer_pattern)",
       [](const M& m) {
         return m.attention.window_kind != WindowKind::Sliding || m.attention.leading_full > 0 ||
                !m.attention.full_layers.empty();
       }},
      {"experts by a list of layers (experts.dense_layers, .layers)",
       [](const M& m) {
         return m.moe && (!m.moe->dense_layers.empty() || !m.moe->layers.empty());
       }},
      {"parts that this export has no keys for", [](const M& m) { return has_unknown_parts(m); }},
  };
}

std::vector<Trait> beyond_first_decoders() {
  return {
      {"latent attention (attention.latent)",
       [](const M& m) { return m.attention.latent.has_value(); }},
      {"attention windows (attention.window)",
       [](const M& m) { return m.attention.window.has_value(); }},
      {"attention sinks (attention.sinks)", [](const M& m) { return m.attention.sinks; }},
      {"norms of queries and keys (attention.qk_norm)",
       [](const M& m) { return m.attention.qk_norm != QkNorm::None; }},
      {"prediction modules (mtp_layers)", [](const M& m) { return m.mtp_layers > 0; }},
  };
}

std::vector<Trait> megatron_lacks() {
  const std::vector<Trait> own{
      {"biases on some linear layers and not on others (attention.bias, mlp.bias)",
       [](const M& m) {
         return !bias_everywhere(m) && !bias_nowhere(m) && !bias_of_queries_only(m);
       }},
      {"a gate that pretrain_gpt.py has no flag for (mlp.activation)",
       [](const M& m) {
         return m.mlp.gated && m.mlp.activation != Activation::Silu && !clamped_gate(m);
       }},
      {"an activation that is neither GELU nor squared ReLU (mlp.activation)",
       [](const M& m) {
         return !m.mlp.gated && m.mlp.activation != Activation::Gelu &&
                m.mlp.activation != Activation::SquaredRelu;
       }},
      // TopKRouter has a bias where the other linear layers do.
      {"a bias on its router alone, or on everything else (experts.router_bias)",
       [](const M& m) { return m.moe && m.moe->router_bias != bias_everywhere(m); }},
      {"leading dense layers and experts in every n-th layer (experts.leading_dense, .every)",
       [](const M& m) { return m.moe && m.moe->leading_dense > 0 && m.moe->every > 1; }},
  };
  return joined<Trait>({beyond_decoders(), own});
}

}  // namespace plansearch::exporters
