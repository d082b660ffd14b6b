// SPDX-License-Identifier: Apache-2.0
#include "io/hf_config.hpp"

#include <fmt/format.h>

#include <map>

#include "base/names.hpp"
#include "io/hf_keys.hpp"

namespace plansearch::io {
namespace {

using FamilyReader = ModelDescription (*)(const HfConfig&);

const std::map<std::string, FamilyReader>& families() {
  static const std::map<std::string, FamilyReader> known = {
      {"bert", read_bert},
      {"bloom", read_bloom},
      {"deepseek_v2", read_deepseek},
      {"deepseek_v3", read_deepseek},
      {"falcon", read_falcon},
      {"gemma", read_gemma},
      {"gemma2", read_gemma},
      {"gpt2", read_gpt2},
      {"gpt_neox", read_gpt_neox},
      {"gpt_oss", read_gpt_oss},
      {"kimi_k2", read_deepseek},
      {"llama", read_llama},
      {"mbart", read_mbart},
      {"mistral", read_llama},
      {"mixtral", read_mixtral},
      {"mt5", read_t5},
      {"opt", read_opt},
      {"phi", read_phi},
      {"phi3", read_llama},
      {"qwen2", read_qwen},
      {"qwen2_moe", read_qwen_moe},
      {"qwen3", read_qwen},
      {"qwen3_moe", read_qwen_moe},
      {"t5", read_t5},
      {"vit", read_vit},
  };
  return known;
}

/// The text part of a multi-modal family is the family itself.
std::string text_family(std::string family) {
  for (const std::string_view suffix : {"_vl_moe_text", "_vl_text", "_text"}) {
    if (!family.ends_with(suffix)) continue;
    family.resize(family.size() - suffix.size());
    return suffix == "_vl_moe_text" ? family + "_moe" : family;
  }
  return family;
}

std::string name_of(const Node& root, const std::string& fallback) {
  const std::optional<Node> named = root.find("_name_or_path");
  if (!named.has_value() || !named->is_scalar()) return fallback;
  const std::string path = named->text();
  const std::string last = path.substr(path.find_last_of('/') + 1);
  return last.empty() ? fallback : last;
}

}  // namespace

std::vector<std::string> supported_hf_families() {
  std::vector<std::string> names;
  for (const auto& [name, reader] : families()) names.push_back(name);
  return names;
}

ModelDescription read_hf_config(const Node& root, const std::string& name) {
  const Node outer = root.at("model_type");
  const std::optional<Node> inner = root.find("text_config");
  const Node& config = inner.has_value() ? *inner : root;
  const std::optional<Node> type = config.find("model_type");
  const std::string family = text_family(type.has_value() ? type->text() : outer.text());
  const auto found = families().find(family);
  if (found == families().end()) {
    const std::vector<std::string> known = supported_hf_families();
    outer.fail(fmt::format("model family '{}' is not supported", family),
               fmt::format("supported: {}; or describe the model yourself (docs/models.md)",
                           fmt::join(known, ", ")));
  }
  ModelDescription model = found->second(HfConfig(config, family));
  if (inner.has_value()) {
    if (const auto tied = root.find("tie_word_embeddings")) model.embedding.tied = tied->boolean();
  }
  model.name = name_of(root, name);
  model.source = fmt::format("Hugging Face configuration, model_type {}", family);
  return model;
}

}  // namespace plansearch::io
