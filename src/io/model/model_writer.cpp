// SPDX-License-Identifier: Apache-2.0
#include "io/model/model_writer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/ranges.hpp"
#include "io/model/model_sections.hpp"
#include "io/plan/plan_document.hpp"

namespace plansearch::io {
namespace {

/// One section: keys whose values are those of a description that says nothing are left out.
class Section {
 public:
  explicit Section(std::string_view indent = "  ") : indent_(indent) {}

  void line(std::string_view key, std::string_view value) {
    text_ += fmt::format("{}{}: {}\n", indent_, key, value);
  }
  template <typename Number>
  void number(std::string_view key, Number value) {
    line(key, fmt::format("{}", value));
  }
  template <typename Number>
  void number(std::string_view key, Number value, Number absent) {
    if (value != absent) number(key, value);
  }
  template <typename Number>
  void number(std::string_view key, const std::optional<Number>& value) {
    if (value) number(key, *value);
  }
  void flag(std::string_view key, bool value, bool absent = false) {
    if (value != absent) line(key, value ? "true" : "false");
  }
  template <typename Item>
  void list(std::string_view key, const std::vector<Item>& items) {
    if (!items.empty()) line(key, fmt::format("[{}]", fmt::join(items, ", ")));
  }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string under(std::string_view name) const {
    return text_.empty() ? std::string() : fmt::format("{}:\n{}", name, text_);
  }

 private:
  std::string indent_;
  std::string text_;
};

BiasPlaces bias_of(const AttentionDescription& a) {
  if (a.query_key_value_bias) return a.output_bias ? BiasPlaces::All : BiasPlaces::Qkv;
  return a.output_bias ? BiasPlaces::Output : BiasPlaces::None;
}

std::string index_text(const IndexDescription& index) {
  return fmt::format("{{heads: {}, size: {}, keys: {}{}}}", index.heads, index.size, index.keys,
                     index.shared ? ", shared: true" : "");
}

std::string attention_yaml(const AttentionDescription& a, std::string_view name,
                           std::string_view indent) {
  Section section(indent);
  section.number("heads", a.heads);
  section.number("kv_heads", a.kv_heads, a.heads);
  if (!a.latent) section.number("head_size", a.head_size);
  section.number("value_size", a.value_size);
  section.number("query_rank", a.query_rank);
  section.number("output_groups", a.output_groups, std::int64_t{0});
  section.number("output_rank", a.output_rank, std::int64_t{0});
  section.flag("value_is_key", a.value_is_key);
  if (a.gate != OutputGate::None) section.line("gate", word_of(kGates, a.gate));
  if (a.index) section.line("index", index_text(*a.index));
  if (a.pool)
    section.line("pool", fmt::format("{{ratio: {}, overlap: {}}}", a.pool->ratio, a.pool->overlap));
  if (bias_of(a) != BiasPlaces::None) section.line("bias", word_of(kBiases, bias_of(a)));
  section.flag("repeats_heads", a.repeats_heads);
  section.flag("fused_projection", a.fused_projection);
  section.line("positions", word_of(kPositions, a.positions));
  section.number("relative_buckets", a.relative_buckets, std::int64_t{0});
  if (a.qk_norm != QkNorm::None) section.line("qk_norm", word_of(kQkNorms, a.qk_norm));
  section.flag("sinks", a.sinks);
  section.number("window", a.window);
  if (a.window_kind != WindowKind::Sliding)
    section.line("window_kind", word_of(kWindows, a.window_kind));
  section.number("full_attention_every", a.full_attention_every, std::int64_t{0});
  section.number("leading_full", a.leading_full, std::int64_t{0});
  section.list("layer_pattern",
               transformed(a.full_layers, [](bool full) { return word_of(kSpans, full); }));
  std::string latent;
  if (a.latent) {
    const std::string deeper = std::string(indent) + "  ";
    Section inner(deeper);
    inner.number("query_rank", a.latent->query_rank);
    inner.number("kv_rank", a.latent->kv_rank);
    inner.number("nope_size", a.latent->nope_size);
    inner.number("rope_size", a.latent->rope_size);
    inner.number("value_size", a.latent->value_size);
    inner.flag("absorbed", a.latent->absorbed);
    latent = inner.under(std::string(indent) + "latent");
  }
  return section.under(name) + latent;
}

std::string recurrence_yaml(const RecurrenceDescription& r, std::string_view name) {
  Section section("    ");
  section.line("form", r.form.name);
  section.number("heads", r.heads);
  section.number("key_heads", r.key_heads, r.heads);
  section.number("value_size", r.value_size);
  section.number("key_size", r.key_size, r.value_size);
  section.number("rank", r.rank, std::int64_t{0});
  section.number("taps", r.taps, std::int64_t{0});
  section.flag("bias", r.bias);
  section.flag("convolution_bias", r.convolution_bias);
  if (r.norm != RecurrenceNorm::None) section.line("norm", word_of(kMixerNorms, r.norm));
  return section.under(name);
}

/// Parts write all of their sizes: they are those of the sections where nothing differs.
std::string list_yaml(const LayerList& list) {
  std::string text;
  if (!list.mixers.empty()) text += "mixers:\n";
  for (const MixerDescription& mixer : list.mixers) {
    text += mixer.recurrence ? recurrence_yaml(*mixer.recurrence, "  " + mixer.name)
                             : attention_yaml(mixer.attention, "  " + mixer.name, "    ");
  }
  if (!list.feed_forwards.empty()) text += "feed_forwards:\n";
  for (const FeedForwardDescription& part : list.feed_forwards) {
    Section section("    ");
    section.number("width", part.mlp.width);
    section.line("activation", word_of(kActivations, part.mlp.activation));
    section.line("gated", part.mlp.gated ? "true" : "false");
    section.line("bias", part.mlp.bias ? "true" : "false");
    text += section.under("  " + part.name);
  }
  Section lists("");
  lists.list("layer_mixers", list.layer_mixers);
  lists.list("layer_feed_forwards", list.layer_feed_forwards);
  lists.list("prediction_mixers", list.prediction_mixers);
  lists.list("prediction_feed_forwards", list.prediction_feed_forwards);
  return text + lists.text();
}

std::string mlp_yaml(const MlpDescription& mlp) {
  if (mlp.width == 0) return {};
  Section section;
  section.number("width", mlp.width);
  section.line("activation", word_of(kActivations, mlp.activation));
  section.flag("gated", mlp.gated);
  section.flag("bias", mlp.bias);
  return section.under("mlp");
}

std::string norm_yaml(const NormDescription& norm) {
  Section section;
  section.line("kind", word_of(kNorms, norm.kind));
  section.line("placement", word_of(kPlacements, norm.placement));
  section.flag("final", norm.final_norm, true);
  section.flag("first", norm.first_norm, true);
  return section.under("norm");
}

std::string embedding_yaml(const ModelDescription& model) {
  const EmbeddingDescription& e = model.embedding;
  if (e.vocab == 0) return {};
  Section section;
  section.number("vocab", e.vocab);
  section.flag("tied", e.tied);
  section.number("width", e.width);
  const bool learned = model.attention.positions == PositionKind::Learned;
  section.number("position_rows", e.position_rows,
                 learned ? model.max_positions.value_or(0) : std::int64_t{0});
  section.number("token_types", e.token_types, std::int64_t{0});
  section.flag("norm", e.norm);
  section.flag("head_bias", e.head_bias);
  section.flag("pooler", e.pooler);
  if (e.head_transform != HeadTransform::None)
    section.line("head_transform", word_of(kTransforms, e.head_transform));
  return section.under("embedding");
}

std::string experts_yaml(const MoeDescription& moe) {
  Section section;
  section.number("count", moe.experts);
  section.number("top_k", moe.top_k);
  section.number("width", moe.expert_width);
  section.number("shared_width", moe.shared_width, std::int64_t{0});
  section.flag("shared_gate", moe.shared_gate);
  section.flag("router_bias", moe.router_bias);
  section.flag("fp32_router", moe.fp32_router);
  section.flag("correction_bias", moe.correction_bias);
  section.flag("bias", moe.expert_bias);
  section.number("leading_dense", moe.leading_dense, std::int64_t{0});
  section.number("every", moe.every, std::int64_t{1});
  section.list("dense_layers", moe.dense_layers);
  section.list("layers", moe.layers);
  section.number("capacity_factor", moe.capacity_factor);
  section.number("imbalance", moe.imbalance, 1.0);
  section.number("groups", moe.groups, std::int64_t{1});
  section.number("top_groups", moe.top_groups, std::int64_t{1});
  section.number("latent", moe.latent, std::int64_t{0});
  section.number("idle", moe.idle, std::int64_t{0});
  return section.under("experts");
}

std::string stacks_yaml(const ModelDescription& model) {
  std::string text;
  if (model.decoder) {
    Section section;
    section.number("layers", model.decoder->layers);
    section.number("mlp_width", model.decoder->mlp_width);
    section.number("sequence", model.decoder->sequence);
    text += section.under("decoder");
  }
  if (model.vision) {
    Section section;
    section.number("image_size", model.vision->image_size);
    section.number("patch_size", model.vision->patch_size);
    section.number("channels", model.vision->channels);
    section.number("classes", model.vision->classes);
    text += section.under("vision");
  }
  if (model.tower) text += fmt::format("tower: {}\n", model.tower->config);
  return text;
}

std::string training_yaml(const ModelDescription& model) {
  const TrainingDefaults& training = model.training;
  Section section;
  if (model.stack != StackKind::Vision) section.number("seq_len", training.seq_len);
  section.number("global_batch", training.global_batch);
  if (training.precision) section.line("precision", to_text(*training.precision));
  section.line("optimizer", word_of(kOptimizers, training.optimizer));
  section.list("frozen", transformed(training.frozen, in_quotes));
  if (training.lora) {
    section.line("lora",
                 fmt::format("{{rank: {}, targets: [{}]}}", training.lora->rank,
                             fmt::join(transformed(training.lora->targets, in_quotes), ", ")));
  }
  return section.under("training");
}

}  // namespace

std::string to_yaml(const ModelDescription& model) {
  Section top("");
  top.line("schema", "plansearch/model/v1");
  top.line("name", in_quotes(model.name));
  top.line("source", in_quotes(model.source));
  if (model.stack != StackKind::Decoder) top.line("stack", word_of(kStacks, model.stack));
  top.number("layers", model.layers);
  top.number("hidden", model.hidden);
  top.number("max_positions", model.max_positions);
  top.number("mtp_layers", model.mtp_layers, std::int64_t{0});
  top.number("streams", model.streams, std::int64_t{1});
  Section dropout;
  dropout.number("residual", model.dropout, 0.0);
  dropout.number("attention", model.attention_dropout, 0.0);
  return top.text() + attention_yaml(model.attention, "attention", "  ") + mlp_yaml(model.mlp) +
         norm_yaml(model.norm) + embedding_yaml(model) + dropout.under("dropout") +
         (model.moe ? experts_yaml(*model.moe) : std::string()) + list_yaml(model.list) +
         stacks_yaml(model) + training_yaml(model);
}

}  // namespace plansearch::io
