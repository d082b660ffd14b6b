// SPDX-License-Identifier: Apache-2.0
// Source: NVIDIA-NeMo/Megatron-Bridge@067f987d src/megatron/bridge/peft/lora.py (target_modules);
// modelscope/ms-swift@3602360a docs/source_en/Megatron-SWIFT/Command-line-parameters.md.
#include "exporters/megatron_adapters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace plansearch::exporters {

Value adapter_rank(const ExportRequest& h) {
  const auto& lora = h.model().training.lora;
  return lora ? Value(lora->rank) : Value();
}

Value megatron_adapters(const ExportRequest& h) {
  const auto& lora = h.model().training.lora;
  if (!lora) return {};
  const auto names = [&](const char* word) {
    return std::find(lora->targets.begin(), lora->targets.end(), word) != lora->targets.end();
  };
  if (names("all-linear")) return Value("all-linear");
  if (names("attention")) return Value({"linear_qkv", "linear_proj"});
  return Value({"linear_fc1", "linear_fc2"});
}

void read_megatron_adapters(Reading& r, const std::string& rank, const std::string& modules) {
  r.asked.lora_rank = r.says(rank) ? whole_number(r.value(rank), 1, 1 << 16) : 8;
  std::vector<std::string> words;
  const Value& said = r.value(modules);
  if (said.is_array()) {
    for (const Value& word : said) words.push_back(text_in(word));
  } else if (!said.is_null()) {
    words.push_back(text_in(said));
  }
  std::vector<std::string> targets;
  const auto add = [&](const char* word) {
    if (std::find(targets.begin(), targets.end(), word) == targets.end())
      targets.emplace_back(word);
  };
  for (const std::string& word : words) {
    if (word == "all-linear")
      add("all-linear");
    else if (word == "linear_qkv")
      add("q"), add("k"), add("v");
    else if (word == "linear_proj")
      add("o");
    else if (word == "linear_fc1")
      add("gate"), add("up");
    else if (word == "linear_fc2")
      add("down");
    else
      throw WrongValue(fmt::format("'{}' is not a module that is known (--lora-targets)", word));
  }
  // Both products of attention and both of the MLP: whatever the model calls them.
  constexpr std::size_t kModules = 7;
  if (words.empty() || targets.size() == kModules) targets = {"all-linear"};
  r.asked.lora_targets = fmt::format("{}", fmt::join(targets, ","));
}

}  // namespace plansearch::exporters
