// SPDX-License-Identifier: Apache-2.0
// Source: huggingface/transformers v5.24 training_args.py: OptimizerNames; models/llama,
// models/deepseek_v3: names of linear modules; huggingface/peft tuners/lora/config.py
// (target_modules, modules_to_save).
#include "exporters/hugging_face.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/names.hpp"
#include "plansearch/transformer_builder.hpp"

namespace plansearch::exporters {
namespace {

/// A word of --lora-targets and the module of transformers that it is.
struct ModuleName {
  std::string_view word, module;
};
constexpr std::array kModules{
    ModuleName{"q", "q_proj"},        ModuleName{"k", "k_proj"},
    ModuleName{"v", "v_proj"},        ModuleName{"q_down", "q_a_proj"},
    ModuleName{"q_up", "q_b_proj"},   ModuleName{"kv_down", "kv_a_proj_with_mqa"},
    ModuleName{"kv_up", "kv_b_proj"}, ModuleName{"o", "o_proj"},
    ModuleName{"gate", "gate_proj"},  ModuleName{"up", "up_proj"},
    ModuleName{"down", "down_proj"},
};
constexpr std::array kTables{ModuleName{"embedding", "embed_tokens"},
                             ModuleName{"head", "lm_head"}};
/// Read only: what networks with fused products call them.
constexpr std::array kFused{ModuleName{"qkv", "qkv_proj"}, ModuleName{"qkv", "query_key_value"},
                            ModuleName{"qkv", "c_attn"}, ModuleName{"qkv", "Wqkv"},
                            ModuleName{"gate_up", "gate_up_proj"}};

constexpr std::array<std::string_view, 3> kMlp{"gate", "up", "down"};

template <typename Table>
const ModuleName* find(const Table& table, std::string_view ModuleName::*field,
                       std::string_view text) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const ModuleName& row) { return row.*field == text; });
  return found == table.end() ? nullptr : &*found;
}

bool names(const LoraDescription& lora, std::string_view word) {
  return std::find(lora.targets.begin(), lora.targets.end(), word) != lora.targets.end();
}

bool is_mlp(std::string_view word) {
  return std::find(kMlp.begin(), kMlp.end(), word) != kMlp.end();
}

/// A list, or words between commas or blanks.
std::vector<std::string> listed(const Value& value) {
  if (!value.is_array()) return words_of(text_in(value), " ,");
  std::vector<std::string> words;
  for (const Value& item : value) words.push_back(text_in(item));
  return words;
}

void add_target(Reading& r, std::string_view word) {
  std::string text = r.asked.lora_targets.value_or("");
  r.asked.lora_targets = text.empty() ? std::string(word) : fmt::format("{},{}", text, word);
}

}  // namespace

Value packs(const ExportRequest& h) {
  return h.chosen.packing ? Value(true) : Value();
}

void read_packing(Reading& r, const Value& v) {
  if (is_left_open(v) || !is_on(v)) return;
  r.notes.emplace_back(
      "sequences are packed: one document a sequence is priced unless --packing LENGTHS says how "
      "long documents are");
}

const LoraDescription* adapters_of(const ExportRequest& h) {
  const auto& lora = h.model().training.lora;
  return lora ? &*lora : nullptr;
}

bool adapts_all(const ExportRequest& h) {
  const LoraDescription* lora = adapters_of(h);
  return lora != nullptr && names(*lora, "all-linear");
}

Value adapter_modules(const ExportRequest& h) {
  const LoraDescription* lora = adapters_of(h);
  if (lora == nullptr || adapts_all(h)) return {};
  const std::vector<std::string> own = adapter_targets(h.model());
  Value modules = Value::array();
  for (const std::string& word : own) {
    const ModuleName* row = find(kModules, &ModuleName::word, word);
    const bool whole = names(*lora, is_mlp(word) ? "mlp" : "attention");
    if (row != nullptr && (whole || names(*lora, word))) modules.push_back(row->module);
  }
  return modules;
}

Value trained_tables(const ExportRequest& h) {
  const LoraDescription* lora = adapters_of(h);
  Value modules = Value::array();
  for (const ModuleName& row : kTables)
    if (lora != nullptr && names(*lora, row.word)) modules.push_back(row.module);
  return modules.empty() ? Value() : modules;
}

void read_adapter_modules(Reading& r, const Value& value, std::string_view all) {
  for (const std::string& module : listed(value)) {
    if (module == all) {
      add_target(r, "all-linear");
      continue;
    }
    const ModuleName* row = find(kModules, &ModuleName::module, module);
    if (row == nullptr) row = find(kFused, &ModuleName::module, module);
    if (row == nullptr) row = find(kTables, &ModuleName::module, module);
    if (row == nullptr)
      throw WrongValue(fmt::format("'{}' is not a module that is known (--lora-targets)", module));
    add_target(r, row->word);
  }
}

void read_trained_tables(Reading& r, const Value& value) {
  for (const std::string& module : listed(value)) {
    const ModuleName* row = find(kTables, &ModuleName::module, module);
    if (row == nullptr)
      throw WrongValue(fmt::format("'{}' is neither embed_tokens nor lm_head", module));
    add_target(r, row->word);
  }
}

Conflict fused_adapters() {
  return {"adapters on fused modules, whose names differ by network (--lora-targets all-linear)",
          [](const ExportRequest& h) {
            const bool named = adapters_of(h) != nullptr && !adapts_all(h);
            return named && h.model().attention.fused_projection;
          }};
}

/// The 8-bit moments are torchao's: those of bitsandbytes do not run under FSDP 2. Pages and Lion
/// are bitsandbytes'.
std::string optimizer_name(const ExportRequest& h) {
  const bool eight_bits = h.chosen.optimizer_states == "int8";
  const bool pages = h.problem.framework->paged_states;
  if (h.optimizer == "lion" || (h.optimizer == "adam" && pages)) {
    return fmt::format("{}{}_{}", pages ? "paged_" : "", h.optimizer == "lion" ? "lion" : "adamw",
                       eight_bits ? "8bit" : "32bit");
  }
  if (h.optimizer != "adam") return h.optimizer;
  return eight_bits ? "adamw_torch_8bit" : "adamw_torch_fused";
}

void read_optimizer_name(Reading& r, const Value& v) {
  const std::string name = canonical_name(text_in(v));
  const auto has = [&](const char* word) { return name.find(word) != std::string::npos; };
  if (has("adafactor")) {
    r.asked.optimizer = "adafactor";
  } else if (has("muon")) {
    r.asked.optimizer = "muon";
  } else if (name == "sgd") {
    r.asked.optimizer = "sgd";
  } else if (has("adam") || has("lion")) {
    r.asked.optimizer = has("lion") ? "lion" : "adam";
    if (has("paged")) r.asked.paged_states = "1";
    if (has("8bit")) r.asked.optimizer_states = "int8";
    if (has("fp8")) r.asked.optimizer_states = "fp8";
  } else {
    throw WrongValue(fmt::format("'{}' is not adam, lion, sgd, adafactor or muon", text_in(v)));
  }
}

bool fully_shards(const ExportRequest& h) {
  return h.sharded() && h.degrees.zero >= ZeroStage::Gradients;
}

void read_flag_of_recompute(Reading& r, const Value& v) {
  if (is_on(v)) r.degrees.recompute = Recompute::Full;
}

std::vector<Accepts> accepts_of_trainer() {
  return {{s(Degree::Zero), {"0", "2", "3"}},
          {s(Degree::Recompute), {"none", "full"}},
          {Setting::Precision, {"bf16", "fp16", "fp32"}, By::Key, "fp32"},
          {Setting::Optimizer, {"adam", "sgd", "lion", "adafactor"}},
          {Setting::Attention, {"flash", "unfused"}},
          {kBasePrecision, {"bf16", "nf4", "int8"}, By::Key, "bf16"},
          {kStates, {"fp32", "int8"}, By::Key, "fp32"},
          {setting_of(plansearch::Setting::Implementation), {}, By::Script},
          {setting_of(plansearch::Setting::Kernels), {}, By::Script},
          {setting_of(Overlap::GradientReduction), {kOn}, By::Target},
          {setting_of(Overlap::ParameterGather), {kOn}, By::Target}};
}

}  // namespace plansearch::exporters
