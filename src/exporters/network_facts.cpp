// SPDX-License-Identifier: Apache-2.0
// Facts of a network, whatever the target.
#include <fmt/format.h>

#include <algorithm>

#include "exporters/fact.hpp"
#include "exporters/megatron_reading.hpp"

namespace plansearch::exporters {
namespace {

using M = ModelDescription;

std::string_view position_word(PositionKind kind) {
  if (kind == PositionKind::Learned) return "learned";
  if (kind == PositionKind::Alibi) return "alibi";
  return kind == PositionKind::Rotary ? "rotary" : "none";
}

void read_positions(R r, V v) {
  const std::string word = text_in(v);
  for (const PositionKind kind :
       {PositionKind::Learned, PositionKind::Rotary, PositionKind::None, PositionKind::Alibi})
    if (position_word(kind) == word) r.model.attention.positions = kind;
}

void read_gate(R r, V v, Activation activation) {
  if (!is_on(v)) return;
  r.model.mlp.gated = true;
  r.model.mlp.activation = activation;
}

Fact experts_number(std::string_view name, std::int64_t MoeDescription::*field) {
  return {std::string(name),
          {S::Model},
          [field](H h) {
            const auto& moe = h.model().moe;
            return moe && moe->groups > 1 ? Value((*moe).*field) : Value();
          },
          [field](R r, V v) { r.experts().*field = whole_number(v); }};
}

bool clamped_gate(const M& m) {
  return m.mlp.gated && m.mlp.activation == Activation::ClampedSilu;
}
bool balances(H h) {
  return h.model().moe && h.model().moe->correction_bias;
}

// clang-format off
Facts trunk_facts() {
  const std::vector<Setting> model{S::Model};
  return {
      model_fact<&M::layers>("layers"),
      model_fact<&M::hidden>("hidden"),
      model_fact<&M::dropout>("dropout"),
      model_fact<&M::attention_dropout>("attention_dropout"),
      {"mlp_width", model, [](H h) { return Value(h.model().mlp.width); },
       [](R r, V v) { r.model.mlp.width = whole_number(v); }},
      {"max_positions", model,
       [](H h) {
         return Value(
             std::max(h.model().max_positions.value_or(h.problem.seq_len), h.problem.seq_len));
       }, [](R r, V v) { r.model.max_positions = whole_number(v); }},
      {"positions", model, [](H h) { return Value(position_word(h.model().attention.positions)); },
       read_positions, true},
      {"rotary", model, [](H h) { return Value(h.model().attention.positions == PositionKind::Rotary); },
       [](R r, V v) { if (is_on(v)) r.model.attention.positions = PositionKind::Rotary; }},
      {"rms_norm", model, [](H h) { return Value(h.model().norm.kind == NormKind::RmsNorm); },
       [](R r, V v) { r.model.norm.kind = is_on(v) ? NormKind::RmsNorm : NormKind::LayerNorm; }},
      {"gated", model, [](H h) { return Value(h.model().mlp.gated); },
       [](R r, V v) { read_gate(r, v, Activation::Silu); }},
      {"silu_gate", model, [](H h) { return Value(h.model().mlp.gated && !clamped_gate(h.model())); },
       [](R r, V v) { read_gate(r, v, Activation::Silu); }},
      // The gate of gpt-oss: x sigmoid(1.702 x) (y + 1), both halves clamped at 7.
      {"clamped_gate", model, [](H h) { return Value(clamped_gate(h.model())); },
       [](R r, V v) { read_gate(r, v, Activation::ClampedSilu); }},
      {"squared_relu", model, [](H h) { return Value(h.model().mlp.activation == Activation::SquaredRelu); },
       [](R r, V v) { if (is_on(v)) r.model.mlp.activation = Activation::SquaredRelu; }},
      {"untied", model, [](H h) { return Value(!h.model().embedding.tied); },
       [](R r, V v) { r.model.embedding.tied = !is_on(v); }},
      {"vocab", model, [](H h) { return Value(h.model().embedding.vocab); },
       [](R r, V v) { r.model.embedding.vocab = whole_number(v); }},
      {"embedding_norm", model, {}, [](R r, V v) { r.model.embedding.norm = is_on(v); }},
      {"mtp_layers", model, [](H h) { return where(h.model().mtp_layers > 0, h.model().mtp_layers); },
       [](R r, V v) { r.model.mtp_layers = whole_number(v, 0); }},
      {"has_mtp_layers", {}, [](H h) { return Value(h.model().mtp_layers > 0); }},
      // They are settled with others.
      {"tokenizer_type", {}},
      {"no_positions", {}},
  };
}

Facts attention_facts() {
  const std::vector<Setting> model{S::Model};
  return {
      attention_fact<&AttentionDescription::heads>("heads"),
      attention_fact<&AttentionDescription::kv_heads>("kv_heads"),
      attention_fact<&AttentionDescription::head_size>("head_size"),
      attention_fact<&AttentionDescription::query_key_value_bias>("query_key_value_bias"),
      {"grouped_queries", model,
       [](H h) {
         return Value(!h.model().attention.latent &&
                      h.model().attention.kv_heads != h.model().attention.heads);
       }},
      {"query_groups", model,
       [](H h) {
         const auto& a = h.model().attention;
         return where(!a.latent && a.kv_heads != a.heads, a.kv_heads);
       }, [](R r, V v) { r.model.attention.kv_heads = whole_number(v); }},
      {"plain_head_size", model,
       [](H h) { return where(!h.model().attention.latent, h.model().attention.head_size); },
       [](R r, V v) { r.model.attention.head_size = whole_number(v); }},
      // The two norms of the latents of DeepSeek are this switch too.
      {"query_key_norms", model,
       [](H h) {
         return Value(h.model().attention.qk_norm == QkNorm::PerHead ||
                      h.model().attention.latent.has_value());
       }},
      {"window", model,
       [](H h) {
         const auto& window = h.model().attention.window;
         return window ? Value(fmt::format("{},0", *window - 1)) : Value();
       }, read_window},
      {"full_attention_every", model,
       [](H h) {
         const auto& a = h.model().attention;
         return where(a.window && a.full_attention_every > 0, a.full_attention_every);
       }, [](R r, V v) { r.model.attention.full_attention_every = whole_number(v); }},
      {"sinks", model, [](H h) { return Value(h.model().attention.sinks); },
       [](R r, V v) { r.model.attention.sinks = is_on(v); }},
      {"latent_attention", model, [](H h) { return Value(h.model().attention.latent.has_value()); },
       [](R r, V v) { if (is_on(v)) r.latent(); }},
      {"query_rank", model,
       [](H h) {
         const auto& latent = h.model().attention.latent;
         return latent && latent->query_rank ? Value(*latent->query_rank) : Value();
       }, [](R r, V v) { r.latent().query_rank = whole_number(v); }},
      latent_fact<&LatentAttention::kv_rank>("kv_rank"),
      latent_fact<&LatentAttention::nope_size>("nope_size"),
      latent_fact<&LatentAttention::rope_size>("rope_size"),
      latent_fact<&LatentAttention::value_size>("value_size"),
  };
}

Facts expert_facts() {
  const std::vector<Setting> model{S::Model};
  return {
      moe_fact<&MoeDescription::experts>("experts"),
      moe_fact<&MoeDescription::top_k>("top_k"),
      moe_fact<&MoeDescription::expert_width>("expert_width"),
      {"has_experts", model, [](H h) { return Value(h.model().moe.has_value()); }},
      {"shared_width", model,
       [](H h) {
         return h.model().moe && h.model().moe->shared_width > 0
                    ? Value(h.model().moe->shared_width)
                    : Value();
       }, [](R r, V v) { r.experts().shared_width = whole_number(v, 0); }},
      {"shared_gate", model, [](H h) { return Value(h.model().moe && h.model().moe->shared_gate); },
       [](R r, V v) { r.experts().shared_gate = is_on(v); }},
      {"correction_bias", model, [](H h) { return Value(balances(h)); },
       [](R r, V v) { r.experts().correction_bias = is_on(v); }},
      {"sigmoid_scores", model, [](H h) { return Value(balances(h)); }},
      {"fp32_router", model, [](H h) { return Value(h.model().moe && h.model().moe->fp32_router); },
       [](R r, V v) { r.experts().fp32_router = is_on(v); }},
      {"one_expert_a_token", model, [](H h) { return Value(h.model().moe && h.model().moe->top_k == 1); }},
      {"capacity_factor", model,
       [](H h) {
         const auto& moe = h.model().moe;
         return moe && moe->capacity_factor ? Value(*moe->capacity_factor) : Value();
       }, [](R r, V v) { r.experts().capacity_factor = real_number(v); }},
      experts_number("expert_groups", &MoeDescription::groups),
      experts_number("top_groups", &MoeDescription::top_groups),
      {"balanced_routing", {chosen(plansearch::Setting::Routing)},
       [](H h) {
         const auto& routing = h.problem.framework->routing;
         return Value(routing && routing->name == "balanced");
       }, [](R r, V v) { if (is_on(v)) r.asked.routing = "balanced"; }},
  };
}
// clang-format on

}  // namespace

Facts network_facts() {
  return joined<Fact>({trunk_facts(), attention_facts(), expert_facts()});
}

}  // namespace plansearch::exporters
