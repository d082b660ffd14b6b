// SPDX-License-Identifier: Apache-2.0
// Layers of a hybrid network as Megatron-LM's pattern, both ways: a letter is a layer, which is a
// mixer or a feed-forward with its norm; | ends a virtual stage, / begins a prediction module.
// Source: NVIDIA/Megatron-LM@d98e8a64 megatron/core/models/hybrid/hybrid_layer_allocation.py:
// Symbols, parse_hybrid_pattern, select_pipeline_segment; hybrid_layer_specs.py: hybrid_stack_spec;
// megatron/core/ssm/mamba_mixer.py: MambaMixer; megatron/core/ssm/gated_delta_net/common.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "exporters/megatron_reading.hpp"
#include "workload/block_builder.hpp"

namespace plansearch::exporters {
namespace {

using M = ModelDescription;

constexpr const char* kMamba = "mamba2";
constexpr const char* kDelta = "gated-delta";
constexpr const char* kMambaPart = "mamba";
constexpr const char* kDeltaPart = "delta";

/// The recurrence of a form; null: the model has none.
const RecurrenceDescription* recurrence_of(const M& m, std::string_view form) {
  for (const MixerDescription& mixer : m.list.mixers)
    if (mixer.recurrence && mixer.recurrence->form.name == form) return &*mixer.recurrence;
  return nullptr;
}

/// MambaMixer has a convolution of four taps with a bias, products without one, and a norm behind
/// its gate that weighs every head; GatedDeltaNet no bias and one weight of a head's size.
char letter_of(const RecurrenceDescription& r) {
  const bool plain = !r.bias && r.taps > 0;
  const bool mamba =
      plain && r.taps == 4 && r.convolution_bias && r.norm == RecurrenceNorm::EachHead;
  if (mamba && r.form.name == kMamba) return 'M';
  const bool delta = plain && !r.convolution_bias && r.norm == RecurrenceNorm::PerHead;
  return delta && r.form.name == kDelta ? 'G' : ' ';
}

/// One letter, or none where the layer has no such part; a blank: the pattern has no letter for it.
std::string mixer_letter(const M& m, const std::string& word) {
  if (word == kNoneWord) return "";
  const auto& a = m.attention;
  if (word == kAttentionWord) return a.latent || a.window || a.index ? " " : "*";
  for (const MixerDescription& mixer : m.list.mixers) {
    if (mixer.name != word || !mixer.recurrence) continue;
    // Sizes are one for all layers.
    if (*mixer.recurrence != *recurrence_of(m, mixer.recurrence->form.name)) return " ";
    return std::string(1, letter_of(*mixer.recurrence));
  }
  return " ";
}

std::string feed_forward_letter(const std::string& word) {
  if (word == kNoneWord) return "";
  if (word == kMlpWord) return "-";
  return word == kExpertsWord ? "E" : " ";
}

std::string letters_of(const M& m, const std::vector<std::string>& mixers,
                       const std::vector<std::string>& feed_forwards) {
  std::string letters;
  for (std::size_t i = 0; i < mixers.size(); ++i)
    letters += mixer_letter(m, mixers[i]) + feed_forward_letter(feed_forwards[i]);
  return letters;
}

/// The letters of each layer; empty: the sections describe the network, or the pattern cannot.
std::vector<std::string> pattern_of(const M& m) {
  if (m.list.empty() || m.stack != StackKind::Decoder) return {};
  std::vector<std::string> layers;
  for (const LayerVariant& layer : layer_variants(m, std::numeric_limits<std::int64_t>::max())) {
    layers.push_back(mixer_letter(m, layer.mixer) + feed_forward_letter(layer.feed_forward));
    if (layers.back().empty() || layers.back().find(' ') != std::string::npos) return {};
  }
  return layers;
}

Value size_of(const M& m, std::string_view form, std::int64_t RecurrenceDescription::*field) {
  const RecurrenceDescription* r = has_pattern(m) ? recurrence_of(m, form) : nullptr;
  return r != nullptr ? Value(r->*field) : Value();
}

Fact recurrence_fact(std::string_view name, const char* form,
                     std::int64_t RecurrenceDescription::*field) {
  return {std::string(name), {S::Model}, [form, field](H h) {
            return size_of(h.model(), form, field);
          }};
}

/// The stages of a virtual pipeline, and the modules behind them.
std::string whole_pattern(H h) {
  const M& m = h.model();
  const std::vector<std::string> layers = pattern_of(m);
  std::string text;
  std::size_t next = 0;
  for (const StageContent& stage : h.stages) {
    if (&stage != &h.stages.front()) text += '|';
    for (std::int64_t i = 0; i < stage.layers; ++i) text += layers.at(next++);
  }
  const std::string module =
      m.list.prediction_mixers.empty()
          ? layers.back()
          : letters_of(m, m.list.prediction_mixers, m.list.prediction_feed_forwards);
  for (std::int64_t i = 0; i < m.mtp_layers; ++i) text += '/' + module;
  return text;
}

MixerDescription& part_of(M& m, const char* name, const char* form) {
  for (MixerDescription& mixer : m.list.mixers)
    if (mixer.name == name) return mixer;
  MixerDescription mixer{name, {}, RecurrenceDescription{}};
  mixer.recurrence->form.name = form;
  m.list.mixers.push_back(std::move(mixer));
  return m.list.mixers.back();
}

void settle_mamba(Reading& r) {
  RecurrenceDescription& mamba = *part_of(r.model, kMambaPart, kMamba).recurrence;
  mamba.value_size = r.number("mamba_value_size", 64);
  mamba.heads = r.number("mamba_heads", 2 * r.model.hidden / mamba.value_size);
  mamba.key_heads = r.number("mamba_groups", 8);
  mamba.key_size = r.number("mamba_state", 128);
  mamba.taps = 4;
  mamba.convolution_bias = true;
  mamba.norm = RecurrenceNorm::EachHead;
  if (mamba.heads == 0 || mamba.heads % mamba.key_heads != 0)
    throw Unsettled(
        fmt::format("{} groups do not divide {} heads of state", mamba.key_heads, mamba.heads),
        "--define mamba-num-heads=N");
}

void settle_delta(Reading& r) {
  RecurrenceDescription& delta = *part_of(r.model, kDeltaPart, kDelta).recurrence;
  delta.heads = r.number("delta_heads", 32);
  delta.key_heads = r.number("delta_key_heads", 16);
  delta.value_size = r.number("delta_value_size", 128);
  delta.key_size = r.number("delta_key_size", 128);
  delta.taps = r.number("delta_taps", 4);
  delta.norm = RecurrenceNorm::PerHead;
  if (delta.heads % delta.key_heads != 0)
    throw Unsettled(fmt::format("{} heads of keys do not divide {}", delta.key_heads, delta.heads),
                    "--define linear-num-value-heads=N");
}

bool is_mixer(char letter) {
  return letter == 'M' || letter == 'G' || letter == '*';
}

/// Whether every mixer has a feed-forward behind it: both are one layer then.
bool in_pairs(std::string_view stage) {
  if (stage.size() % 2 != 0) return false;
  for (std::size_t i = 0; i < stage.size(); i += 2)
    if (!is_mixer(stage[i]) || is_mixer(stage[i + 1])) return false;
  return true;
}

struct LayerWords {
  std::vector<std::string>& mixers;
  std::vector<std::string>& feed_forwards;
};

void append_layers(Reading& r, std::string_view letters, bool pairs, LayerWords words) {
  for (std::size_t i = 0; i < letters.size(); i += pairs ? 2 : 1) {
    const char mixer = is_mixer(letters[i]) ? letters[i] : ' ';
    const char feed_forward = pairs ? letters[i + 1] : letters[i];
    if (mixer == 'M') settle_mamba(r);
    if (mixer == 'G') settle_delta(r);
    const char* part = mixer == 'M' ? kMambaPart : kDeltaPart;
    words.mixers.emplace_back(mixer == ' ' ? kNoneWord : mixer == '*' ? kAttentionWord : part);
    words.feed_forwards.emplace_back(is_mixer(feed_forward) ? kNoneWord
                                     : feed_forward == '-'  ? kMlpWord
                                                            : kExpertsWord);
  }
}

void check_letters(std::string_view pattern) {
  for (const char letter : pattern) {
    if (letter == 'D' || letter == '+')
      throw WrongValue(fmt::format(
          "'{}' is latent attention without norms of its latents, which is not described", letter));
    if (std::string_view("MG*-E|/").find(letter) == std::string_view::npos)
      throw WrongValue(fmt::format("'{}' is not a letter of a pattern", letter));
  }
}

}  // namespace

bool has_pattern(const M& m) {
  return !pattern_of(m).empty();
}

/// The list of such a model in one spelling, whatever its parts are called.
void respell_layers(M& m) {
  const std::vector<std::string> layers = pattern_of(m);
  if (layers.empty()) return;
  const std::string letters = fmt::format("{}", fmt::join(layers, ""));
  LayerList list;
  for (MixerDescription& mixer : m.list.mixers) {
    const char letter = mixer.recurrence ? letter_of(*mixer.recurrence) : ' ';
    if (letter == ' ' || letters.find(letter) == std::string::npos) continue;
    mixer.name = letter;
    RecurrenceForm form;
    form.name = mixer.recurrence->form.name;
    mixer.recurrence->form = std::move(form);
    mixer.attention = {};
    if (!contains(list.mixers, mixer)) list.mixers.push_back(mixer);
  }
  list.layer_mixers = layers;
  list.prediction_mixers = m.list.prediction_mixers;
  list.prediction_feed_forwards = m.list.prediction_feed_forwards;
  m.list = std::move(list);
}

void settle_layers(Reading& r) {
  M& m = r.model;
  if (r.knows("linear_layers")) {
    for (const bool linear : layer_flags(r.fact("linear_layers"), m.layers))
      m.list.layer_mixers.emplace_back(linear ? kDeltaPart : kAttentionWord);
    settle_delta(r);
  }
  if (!r.knows("layer_pattern")) return;
  std::string pattern = without_quotes(r.word("layer_pattern"));
  check_letters(pattern);
  const std::size_t end = std::min(pattern.find('/'), pattern.size());
  const std::string modules = pattern.substr(end);
  pattern.resize(end);
  const std::vector<std::string> stages = split(pattern, "|");
  const bool pairs = std::ranges::all_of(stages, in_pairs);
  for (const std::string& stage : stages)
    append_layers(r, stage, pairs, {m.list.layer_mixers, m.list.layer_feed_forwards});
  m.layers = static_cast<std::int64_t>(m.list.layer_mixers.size());
  if (m.layers == 0) throw Unsettled("its pattern has no layers", "--hybrid-layer-pattern M-M*-");
  m.mtp_layers = std::ranges::count(modules, '/');
  const std::string module =
      modules.substr(std::min<std::size_t>(modules.find_last_of('/') + 1, modules.size()));
  append_layers(r, module, in_pairs(module),
                {m.list.prediction_mixers, m.list.prediction_feed_forwards});
  if (stages.size() == 1) return;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const auto layers = static_cast<std::int64_t>(stages[i].size()) / (pairs ? 2 : 1);
    r.stages.push_back(
        {i == 0, layers, i + 1 == stages.size() ? m.mtp_layers : 0, i + 1 == stages.size()});
  }
}

// clang-format off
Facts layer_facts() {
  const std::vector<Setting> model{S::Model};
  using R_ = RecurrenceDescription;
  return {
      {"layer_pattern", {S::Model, S::Layers, s(D::Chunks), s(D::Schedule)},
       [](H h) { return has_pattern(h.model()) ? Value(whole_pattern(h)) : Value(); },
       [](R r, V) { r.has_model = true; }},
      {"layers_without_pattern", model,
       [](H h) { return where(!has_pattern(h.model()), h.model().layers); },
       [](R r, V v) { r.has_model = true; r.model.layers = whole_number(v); }},
      {"has_pattern", model, [](H h) { return Value(has_pattern(h.model())); }},
      // They lie on the last stage.
      {"early_predictions", {},
       [](H h) {
         const auto early = [&](const StageContent& stage) { return stage.predictions > 0 && &stage != &h.stages.back(); };
         return Value(has_pattern(h.model()) && std::ranges::any_of(h.stages, early));
       }},
      recurrence_fact("mamba_heads", kMamba, &R_::heads),
      recurrence_fact("mamba_groups", kMamba, &R_::key_heads),
      recurrence_fact("mamba_state", kMamba, &R_::key_size),
      recurrence_fact("mamba_value_size", kMamba, &R_::value_size),
      recurrence_fact("delta_heads", kDelta, &R_::heads),
      recurrence_fact("delta_key_heads", kDelta, &R_::key_heads),
      recurrence_fact("delta_key_size", kDelta, &R_::key_size),
      recurrence_fact("delta_value_size", kDelta, &R_::value_size),
      recurrence_fact("delta_taps", kDelta, &R_::taps),
      {"attention_gate", model, [](H h) { return Value(h.model().attention.gate == OutputGate::Full); },
       [](R r, V v) { if (is_on(v)) r.model.attention.gate = OutputGate::Full; }},
      {"expert_latent", model,
       [](H h) { return h.model().moe && h.model().moe->latent > 0 ? Value(h.model().moe->latent) : Value(); },
       [](R r, V v) { r.experts().latent = whole_number(v); }},
      // Read together: layers with linear attention, and what makes them so.
      {"linear_layers", {}}, {"attention_variant", {}}, {"hybrid_switch", {}},
  };
}
// clang-format on

}  // namespace plansearch::exporters
