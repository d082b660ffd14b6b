// SPDX-License-Identifier: Apache-2.0
// Source: NVIDIA-NeMo/Megatron-Bridge@067f987d src/megatron/bridge/peft/lora.py (target_modules);
// modelscope/ms-swift@3602360a docs/source_en/Megatron-SWIFT/Command-line-parameters.md; for latent
// attention volcengine/verl docs/advance/ppo_lora.rst and NVIDIA/Megatron-LM@d98e8a64
// megatron/core/transformer/multi_latent_attention.py (MLASelfAttention: linear_q_proj where
// queries are not compressed).
#include "exporters/megatron_adapters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "base/ranges.hpp"

namespace plansearch::exporters {
namespace {

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
  r.asked.lora_rank =
      r.knows("adapter_rank") ? whole_number(r.fact("adapter_rank"), 1, 1 << 16) : 8;
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
