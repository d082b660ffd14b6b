// SPDX-License-Identifier: Apache-2.0
#include "exporters/spelling.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "exporters/megatron_reading.hpp"

namespace plansearch::exporters {

namespace {

constexpr std::string_view kTrue = "true";
constexpr std::string_view kFalse = "false";

std::string spelled_text(const Value& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// "true" and "false", as words or as booleans.
bool is_switch(const Value& value) {
  if (value.is_boolean()) return true;
  if (!value.is_string()) return false;
  const std::string word = canonical_name(value.get<std::string>());
  return word == kTrue || word == kFalse;
}

bool same(const Value& word, const Value& value) {
  if (word.is_null() || value.is_null()) return false;
  if (is_switch(word) && is_switch(value)) return is_on(word) == is_on(value);
  return spelled_text(word) == spelled_text(value);
}

const Value* find_word(const Spelling& spelling, std::string_view value) {
  const auto found =
      std::ranges::find_if(spelling.words, [&](const auto& word) { return word.first == value; });
  return found == spelling.words.end() ? nullptr : &found->second;
}

/// The value of the fact that a word stands for; switches as booleans.
Value meant(const std::string& value) {
  return value == kTrue || value == kFalse ? Value(value == kTrue) : Value(value);
}

/// A switch by words of which the file has none: off, or as its other word is on or off.
bool switch_in(const Value* on, const Value* off, const Value& value) {
  if (on != nullptr && is_switch(*on)) return is_on(value) == is_on(*on);
  return off != nullptr && is_switch(*off) && is_on(value) != is_on(*off);
}

std::string joined_words(const Value& words) {
  return fmt::format("{}", fmt::join(transformed(words, spelled_text), ","));
}

/// The words of "[a,b]" and "a, b".
Value list_in(const Value& value) {
  if (!value.is_string()) return value;
  std::string text = value.get<std::string>();
  std::erase_if(
      text, [](char c) { return std::string_view("[]'\" ").find(c) != std::string_view::npos; });
  Value list = Value::array();
  for (const std::string& word : words_of(text, ",")) list.push_back(word);
  return list;
}

[[noreturn]] void refuse_word(const Spelling& spelling, const Value& value) {
  std::vector<std::string> known;
  for (const auto& [own, word] : spelling.words)
    if (!word.is_null()) known.push_back(spelled_text(word));
  const std::string last = known.back();
  known.pop_back();
  throw WrongValue(
      fmt::format("'{}' is not {} or {}", spelled_text(value), fmt::join(known, ", "), last));
}

using M = ModelDescription;

struct TraitRow {
  std::string_view name;  ///< of the trait, or of the group
  std::vector<Trait> traits;
};

// clang-format off
// Traits that a decoder-only model of text lacks, whatever runs it; then those that decoders have
// learned since GPT-3 and the first Llama, for targets that stayed there.
std::vector<TraitRow> groups() {
  return {
      {"beyond_decoders", {
        {"an encoder or images; only decoders of text go there (stack)", [](const M& m) { return (m.stack != StackKind::Decoder && !m.graph) || m.vision || m.decoder; }},
        {"operators of its own, where only decoders of text go (blocks)", [](const M& m) { return m.graph != nullptr; }},
        {"frozen parameters (training.frozen)", [](const M& m) { return !m.training.frozen.empty(); }},
        {"an embedding of another width (embedding.width)", [](const M& m) { return m.embedding.width.has_value(); }},
        {"token types, a norm or a pooler at its embedding (embedding.token_types, .norm, .pooler)", [](const M& m) { return m.embedding.token_types > 0 || m.embedding.norm || m.embedding.pooler; }},
        {"a bias on its logits (embedding.head_bias)", [](const M& m) { return m.embedding.head_bias; }},
        {"no norm at its end (norm.final)", [](const M& m) { return !m.norm.final_norm; }},
        {"norms elsewhere than before each sublayer (norm.placement)", [](const M& m) { return m.norm.placement != NormPlacement::Pre; }},
        {"norms without bias or weight (norm.kind)", [](const M& m) { return m.norm.kind != NormKind::LayerNorm && m.norm.kind != NormKind::RmsNorm; }},
        {"positions that are biases (ALiBi, relative) (attention.positions)", [](const M& m) { return m.attention.positions == PositionKind::Alibi || m.attention.positions == PositionKind::Relative; }},
        {"norms of queries and keys that are not one weight for all heads (attention.qk_norm)", [](const M& m) { return m.attention.qk_norm != QkNorm::None && m.attention.qk_norm != QkNorm::PerHead; }},
        {"a layer between its last norm and the logits (embedding.head_transform)", [](const M& m) { return m.embedding.head_transform != HeadTransform::None; }},
        {"logits of some positions only (embedding.predicted)", [](const M& m) { return m.embedding.predicted < 1.0; }},
        {"a first layer without a norm (norm.first)", [](const M& m) { return !m.norm.first_norm; }},
        {"windows in chunks, or full attention by a list of layers (attention.window_kind, .leading_full, .layer_pattern)", [](const M& m) { return m.attention.window_kind != WindowKind::Sliding || m.attention.leading_full > 0 || !m.attention.full_layers.empty(); }},
        {"experts by a list of layers (experts.dense_layers, .layers)", [](const M& m) { return m.moe && (!m.moe->dense_layers.empty() || !m.moe->layers.empty()); }},
        {"attention to keys that an indexer chooses, or to pooled ones (attention.index, .pool)", [](const M& m) { return m.attention.index || m.attention.pool || m.attention.query_rank || m.attention.value_is_key || m.attention.output_groups > 0; }},
        {"a residual of several streams (streams)", [](const M& m) { return m.streams > 1; }},
      }},
      {"beyond_first_decoders", {
        {"latent attention (attention.latent)", [](const M& m) { return m.attention.latent.has_value(); }},
        {"attention windows (attention.window)", [](const M& m) { return m.attention.window.has_value(); }},
        {"attention sinks (attention.sinks)", [](const M& m) { return m.attention.sinks; }},
        {"norms of queries and keys (attention.qk_norm)", [](const M& m) { return m.attention.qk_norm != QkNorm::None; }},
        {"prediction modules (mtp_layers)", [](const M& m) { return m.mtp_layers > 0; }},
      }},
      {"prediction_modules", {{"multi-token prediction (mtp_layers)", [](const M& m) { return m.mtp_layers > 0; }}}},
  };
}

/// Layers that differ one by one, for targets whose layers are equal, and what Megatron-LM's pattern lacks.
std::vector<TraitRow> lists() {
  return {
      {"listed_layers", {
        {"layers that differ one by one, or recurrences (layer_mixers, layer_feed_forwards)", [](const M& m) { return !m.list.empty(); }},
        {"a gate on attention, or values narrower than keys (attention.gate, .value_size)", [](const M& m) { return m.attention.gate != OutputGate::None || m.attention.value_size.has_value(); }},
        {"experts that work in a latent, or choices without an expert (experts.latent, .idle)", [](const M& m) { return m.moe && (m.moe->latent > 0 || m.moe->idle > 0); }},
      }},
      {"beyond_pattern", {
        {"layers that differ one by one in more than Megatron-LM's pattern has letters for: M (Mamba-2), G (gated delta), * (attention), - (MLP), E (experts) (mixers, layer_mixers, layer_feed_forwards)", [](const M& m) { return !m.list.empty() && !has_pattern(m); }},
        {"a gate a head, or values narrower than keys (attention.gate, .value_size)", [](const M& m) { return m.attention.gate == OutputGate::PerHead || m.attention.value_size.has_value(); }},
        {"choices without an expert (experts.idle)", [](const M& m) { return m.moe && m.moe->idle > 0; }},
      }},
  };
}

std::vector<TraitRow> layers() {
  return {
      {"mixed_biases",
       {{"biases on some linear layers and not on others (attention.bias, mlp.bias)",
        [](const M& m) {
          const auto& a = m.attention;
          const bool any = a.query_key_value_bias || a.output_bias || m.mlp.bias;
          return any && !(a.query_key_value_bias && a.output_bias && m.mlp.bias);
        }}}},
      {"mixed_biases_but_queries",
       {{"biases on some linear layers and not on others (attention.bias, mlp.bias)",
        [](const M& m) { return !bias_everywhere(m) && !bias_nowhere(m) && !bias_of_queries_only(m); }}}},
      {"missing_biases",
       {{"linear layers without a bias (AxoNN's Linear is made with one)",
        [](const M& m) { return !m.attention.query_key_value_bias || !m.attention.output_bias || !m.mlp.bias; }}}},
      {"biases_behind_attention",
       {{"biases behind attention or in the MLP (attention.bias, mlp.bias)",
        [](const M& m) { return m.attention.output_bias || m.mlp.bias; }}}},
      {"gate_without_flag",
       {{"a gate that pretrain_gpt.py has no flag for (mlp.activation)",
        [](const M& m) {
          return m.mlp.gated && m.mlp.activation != Activation::Silu && m.mlp.activation != Activation::ClampedSilu;
        }}}},
      {"other_gate",
       {{"a gate that is not SiLU (mlp.activation)",
        [](const M& m) { return m.mlp.gated && m.mlp.activation != Activation::Silu; }}}},
      {"no_silu_gate",
       {{"an MLP without a SiLU gate (mlp.gated, .activation)",
        [](const M& m) { return !m.mlp.gated || m.mlp.activation != Activation::Silu; }}}},
      {"other_activation",
       {{"an activation that is neither GELU nor squared ReLU (mlp.activation)",
        [](const M& m) {
          return !m.mlp.gated && m.mlp.activation != Activation::Gelu && m.mlp.activation != Activation::SquaredRelu;
        }}}},
      // TopKRouter has a bias where the other linear layers do.
      {"own_router_bias",
       {{"a bias on its router alone, or on everything else (experts.router_bias)",
        [](const M& m) { return m.moe && m.moe->router_bias != bias_everywhere(m); }}}},
      {"dense_and_every",
       {{"leading dense layers and experts in every n-th layer (experts.leading_dense, .every)",
        [](const M& m) { return m.moe && m.moe->leading_dense > 0 && m.moe->every > 1; }}}},
  };
}

std::vector<TraitRow> parts() {
  return {
      {"priced_experts",
       {{"experts (its experts are another layer, not the one priced)", [](const M& m) { return m.moe.has_value(); }}}},
      {"experts_of_nanotron",
       {{"experts (nanotron's are another layer, not the one priced)", [](const M& m) { return m.moe.has_value(); }}}},
      {"experts_on_a_grid",
       {{"experts (megatron/model/transformer.py has none on a grid)", [](const M& m) { return m.moe.has_value(); }}}},
      {"no_positions",
       {{"no positions (attention.positions)", [](const M& m) { return m.attention.positions == PositionKind::None; }}}},
      {"other_positions",
       {{"positions that are not rotary (attention.positions)",
        [](const M& m) { return m.attention.positions != PositionKind::Rotary; }}}},
      {"norms_with_mean",
       {{"layer norms with a mean (norm.kind)", [](const M& m) { return m.norm.kind != NormKind::RmsNorm; }}}},
      {"other_head_size",
       {{"heads that are not hidden / heads wide (attention.head_size)",
        [](const M& m) { return m.attention.heads * m.attention.head_size != m.hidden; }}}},
      {"no_block", {{"a layer that MaxText has no decoder block for (attention, norm, mlp, experts)", has_no_block}}},
      {"router_bias",
       {{"a bias on its router (experts.router_bias)", [](const M& m) { return m.moe && m.moe->router_bias; }}}},
      {"shared_gate",
       {{"a gate on its shared experts (experts.shared_gate)", [](const M& m) { return m.moe && m.moe->shared_gate; }}}},
      {"dropout", {{"dropout", [](const M& m) { return m.dropout > 0.0 || m.attention_dropout > 0.0; }}}},
  };
}
// clang-format on

const std::vector<TraitRow>& trait_table() {
  static const std::vector<TraitRow> kRows =
      joined<TraitRow>({groups(), lists(), layers(), parts()});
  return kRows;
}

}  // namespace

Value spelled(const Fact& fact, const Spelling& spelling, const ExportRequest& request) {
  Value value = fact.write ? fact.write(request) : Value();
  if (value.is_null()) return spelling.otherwise;
  if (const Value* word = find_word(spelling, spelled_text(value))) return *word;
  if (value.is_boolean()) {
    if (!spelling.words.empty()) return spelling.otherwise;
    return value.get<bool>() ? spelling.on : spelling.off;
  }
  if (value.is_array() && !spelling.list.empty()) {
    const std::string text = joined_words(value);
    return Value(spelling.list == "brackets" ? fmt::format("[{}]", text) : text);
  }
  return fact.free_text && spelling.hydra ? hydra_text(spelled_text(value)) : value;
}

void read_spelled(const Fact& fact, const Spelling& spelling, Reading& reading,
                  const Value& value) {
  Value found = spelling.list.empty() ? value : list_in(value);
  const auto stands = [&](const auto& word) { return same(word.second, value); };
  auto word = std::ranges::find_if(spelling.words, stands);
  bool known = word != spelling.words.end();
  if (!known) {
    word = std::ranges::find_if(spelling.read_as, stands);
    known = word != spelling.read_as.end();
  }
  const Value* on = find_word(spelling, kTrue);
  const Value* off = find_word(spelling, kFalse);
  if (known) {
    found = meant(word->first);
  } else if (spelling.left_open && is_left_open(value)) {
    reading.left_open.insert(fact.name);
    return;
  } else if (on != nullptr || off != nullptr) {
    found = Value(switch_in(on, off, value));
  } else if (fact.closed && !spelling.words.empty()) {
    refuse_word(spelling, value);
  }
  reading.facts[fact.name] = found;
  if (fact.read) fact.read(reading, found);
}

Key key_of(std::string_view name, const Fact& fact, Spelling spelling) {
  Key key;
  key.name = name;
  key.says = fact.says;
  const auto shared = std::make_shared<const Spelling>(std::move(spelling));
  key.value = [&fact, shared](const ExportRequest& h) { return spelled(fact, *shared, h); };
  key.read = [&fact, shared](Reading& r, const Value& v) { read_spelled(fact, *shared, r, v); };
  return key;
}

std::vector<Trait> traits_called(std::string_view name) {
  const auto found = std::ranges::find(trait_table(), name, &TraitRow::name);
  return found == trait_table().end() ? std::vector<Trait>() : found->traits;
}

std::vector<std::string> trait_names() {
  return transformed<std::string>(trait_table(), &TraitRow::name);
}

}  // namespace plansearch::exporters
