// SPDX-License-Identifier: Apache-2.0
// Source: NVIDIA/Megatron-LM@d98e8a64 megatron/training/arguments.py: validate_args
// (ffn_hidden_size, kv_channels, moe_ffn_hidden_size), _add_mla_args;
// megatron/core/transformer/transformer_config.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "base/ranges.hpp"
#include "exporters/megatron_reading.hpp"

namespace plansearch::exporters {
namespace {

/// Entries of tokenizers whose files are fixed.
std::int64_t vocabulary_of(const Reading& r) {
  const std::string type = r.word("tokenizer_type");
  if (type == "GPT2BPETokenizer") return 50257;  // openai/gpt-2 encoder.json
  if (type == "Llama2Tokenizer") return 32000;   // meta-llama/llama tokenizer.model
  return 0;
}

/// The same arguments make another network in other programs, and beside some keys.
void refuse_other_networks(const Reading& r) {
  const std::string variant = r.word("attention_variant", "gdn");
  const bool linear = r.knows("attention_variant") && r.knows("linear_layers");
  const bool listed = r.knows("layer_pattern") || linear;
  const bool linear_only = variant == "gdn" || variant == "gated_delta_net";
  if (!linear_only || ((r.on("hybrid_switch") || r.knows("attention_variant")) && !listed)) {
    throw Unsettled("its layers are not all attention and MLP (state space, sparse attention)",
                    "--model NAME; docs/models.md says how to describe a network");
  }
  for (const char* word :
       {"bert", "t5", "vit", "vision", "retro", "ict", "mamba", "vlm", "multimodal"}) {
    if (r.program.find(word) == std::string::npos || r.knows("layer_pattern")) continue;
    throw Unsettled(fmt::format("{} does not train a decoder of text", r.program), "--model NAME");
  }
}

void settle_latent(Reading& r) {
  auto& latent = r.model.attention.latent;
  if (!r.on("latent_attention")) latent.reset();
  if (!latent) return;
  // _add_mla_args
  if (latent->kv_rank == 0) latent->kv_rank = 32;
  if (latent->nope_size == 0) latent->nope_size = 128;
  if (latent->rope_size == 0) latent->rope_size = 64;
  if (latent->value_size == 0) latent->value_size = 128;
  r.model.attention.head_size = latent->nope_size + latent->rope_size;
}

void settle_experts(Reading& r, bool biased) {
  auto& moe = r.model.moe;
  if (!r.knows("experts") || moe->experts == 0) moe.reset();
  if (!moe) return;
  if (moe->top_k == 0) moe->top_k = 2;
  if (moe->expert_width == 0) moe->expert_width = r.model.mlp.width;
  moe->expert_bias = moe->router_bias = biased;
}

/// Megatron's modules and the matrices that each holds.
struct Module {
  std::string_view name;
  std::string_view matrices;
};
constexpr std::array kFusedAttention{Module{"linear_qkv", "q,k,v"}, Module{"linear_proj", "o"}};
constexpr std::array kPlainQueries{
    Module{"linear_q_proj", "q"}, Module{"linear_kv_down_proj", "kv_down"},
    Module{"linear_kv_up_proj", "kv_up"}, Module{"linear_proj", "o"}};
constexpr std::array kCompressedQueries{
    Module{"linear_q_down_proj", "q_down"}, Module{"linear_q_up_proj", "q_up"},
    Module{"linear_kv_down_proj", "kv_down"}, Module{"linear_kv_up_proj", "kv_up"},
    Module{"linear_proj", "o"}};
constexpr std::array kMlp{Module{"linear_fc1", "gate,up"}, Module{"linear_fc2", "down"}};

std::span<const Module> attention_of(const ModelDescription& model) {
  const auto& latent = model.attention.latent;
  if (!latent) return kFusedAttention;
  if (!latent->query_rank) return kPlainQueries;
  return kCompressedQueries;
}

/// Whether all modules of one kind of attention and both of the MLP are among the words.
bool is_everything(const std::vector<std::string>& words) {
  const auto all = [&](std::span<const Module> modules) {
    return std::ranges::all_of(modules,
                               [&](const Module& module) { return contains(words, module.name); });
  };
  return all(kMlp) && (all(kFusedAttention) || all(kPlainQueries) || all(kCompressedQueries));
}

/// "([0]*3+[1]*58)", "[0,1,1]", "([1]*3+[0])*12": a list of layers, written out.
std::vector<bool> listed_layers(std::string text) {
  text = without_quotes(std::move(text));
  std::vector<bool> layers;
  std::size_t group = 0;  // where the open bracket stands in the list
  for (std::size_t i = 0; i < text.size();) {
    std::size_t from = layers.size();
    if (text[i] == '(') {
      group = layers.size();
      ++i;
      continue;
    }
    if (text[i] == ')') {
      from = group;
      ++i;
    } else if (text[i] == '[') {
      for (++i; i < text.size() && text[i] != ']'; ++i) {
        if (text[i] == '0' || text[i] == '1')
          layers.push_back(text[i] == '1');
        else if (text[i] != ',')
          throw WrongValue(fmt::format("'{}' is not a list of layers", text));
      }
      if (i++ == text.size()) throw WrongValue("brackets do not match");
    } else {
      throw WrongValue(fmt::format("'{}' is not a list of layers", text));
    }
    const std::vector<bool> part(layers.begin() + static_cast<std::ptrdiff_t>(from), layers.end());
    const std::int64_t times = repetitions(text, i, 0);
    if (from + part.size() * static_cast<std::size_t>(times) > 10'000)
      throw WrongValue("a list of so many layers");
    layers.resize(from);
    for (std::int64_t k = 0; k < times; ++k) layers.insert(layers.end(), part.begin(), part.end());
    if (i < text.size() && text[i] == '+') ++i;
  }
  return layers;
}

void append_names(std::span<const Module> modules, Value& list) {
  for (const Module& module : modules) list.push_back(module.name);
}

std::optional<std::string_view> matrices_of(std::string_view name) {
  for (const std::span<const Module> modules :
       {std::span<const Module>(kFusedAttention), std::span<const Module>(kPlainQueries),
        std::span<const Module>(kCompressedQueries), std::span<const Module>(kMlp)}) {
    for (const Module& module : modules) {
      if (module.name == name) return module.matrices;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string without_quotes(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\'' || c == '"'; });
  return text;
}

/// "4095,0" or "(4095, 0)", or two words.
void read_window(Reading& r, const Value& v) {
  std::string text = v.is_array() && !v.empty() ? text_in(v[0]) : text_in(v);
  std::erase_if(text, [](char c) { return c == '(' || c == ' '; });
  text = text.substr(0, text.find(','));
  r.model.attention.window = whole_number(Value(text), 0, 100'000'000) + 1;
}

/// Experts in every n-th layer, or in those of a list.
void read_expert_layers(Reading& r, const Value& v) {
  const std::string text = text_in(v);
  if (text.find('[') == std::string::npos) {
    r.experts().every = whole_number(Value(text));
    return;
  }
  const std::vector<bool> experts = listed_layers(text);
  const auto first = std::ranges::find(experts, true);
  r.experts().leading_dense = first - experts.begin();
  for (auto layer = first; layer != experts.end(); ++layer) {
    if (!*layer) r.experts().dense_layers.push_back(layer - experts.begin());
  }
}

std::vector<bool> layer_flags(const Value& v, std::int64_t layers) {
  const std::string text = text_in(v);
  if (text.find('[') != std::string::npos) return listed_layers(text);
  const std::int64_t every = whole_number(Value(text));
  std::vector<bool> flags;
  for (std::int64_t layer = 1; layer <= layers; ++layer) flags.push_back(layer % every != 0);
  return flags;
}

void settle_megatron_model(Reading& r) {
  ModelDescription& m = r.model;
  if (!r.has_model || !r.asked.model.empty()) return;  // said on the command line
  refuse_other_networks(r);
  settle_layers(r);
  AttentionDescription& a = m.attention;
  if (m.layers == 0 || m.hidden == 0 || a.heads == 0)
    throw Unsettled("nothing says all of --num-layers, --hidden-size and --num-attention-heads",
                    "--model NAME, or --define num-layers=N");
  if (m.mlp.width == 0) m.mlp.width = m.mlp.gated ? (4 * m.hidden * 2 / 3) / 64 * 64 : 4 * m.hidden;
  if (a.head_size == 0 && !r.on("latent_attention")) {
    if (m.hidden % a.heads != 0)
      throw Unsettled(fmt::format("{} heads do not divide the hidden size {}", a.heads, m.hidden),
                      "--define kv-channels=N");
    a.head_size = m.hidden / a.heads;
  }
  const bool grouped = r.on("grouped_queries");
  if (!grouped) a.kv_heads = a.heads;
  if (grouped && a.kv_heads == 0) a.kv_heads = 1;
  const bool biased = !r.on("linear_bias_missing") && !r.on("no_linear_bias");
  a.query_key_value_bias = biased || r.on("query_bias_only");
  a.output_bias = m.mlp.bias = biased;
  settle_latent(r);
  if (r.on("query_key_norms") && !a.latent) a.qk_norm = QkNorm::PerHead;
  settle_experts(r, biased);
  if (a.positions == PositionKind::Learned && r.on("no_positions"))
    a.positions = PositionKind::None;
  if (a.positions == PositionKind::Learned) m.embedding.position_rows = m.max_positions.value_or(0);
  if (m.embedding.vocab == 0) m.embedding.vocab = vocabulary_of(r);
}

Value adapter_rank(const ExportRequest& h) {
  const auto& lora = h.model().training.lora;
  return lora ? Value(lora->rank) : Value();
}

Value megatron_adapters(const ExportRequest& h) {
  const auto& lora = h.model().training.lora;
  if (!lora) return {};
  const auto names = [&](const char* word) { return contains(lora->targets, word); };
  if (names("all-linear")) return Value("all-linear");
  Value modules = Value::array();
  if (names("attention")) append_names(attention_of(h.model()), modules);
  if (names("mlp")) append_names(kMlp, modules);
  return modules;
}

Value every_adapted_module(const ExportRequest& h) {
  Value modules = Value::array();
  append_names(attention_of(h.model()), modules);
  append_names(kMlp, modules);
  return modules;
}

void read_megatron_adapters(Reading& r) {
  r.asked.lora_rank = r.number("adapter_rank", 8, 1, 1 << 16);
  std::vector<std::string> words;
  for (const char* fact : {"megatron_adapters", "megatron_adapters_by_name"})
    if (r.knows(fact)) words = texts_in(r.fact(fact));
  std::vector<std::string> targets;
  for (const std::string& word : words) {
    const auto matrices =
        word == "all-linear" ? std::optional<std::string_view>(word) : matrices_of(word);
    if (!matrices)
      throw WrongValue(fmt::format("'{}' is not a module that is known (--lora-targets)", word));
    if (!contains(targets, *matrices)) targets.emplace_back(*matrices);
  }
  // Under any name that the model gives them.
  if (words.empty() || is_everything(words)) targets = {"all-linear"};
  r.asked.lora_targets = fmt::format("{}", fmt::join(targets, ","));
}

}  // namespace plansearch::exporters
