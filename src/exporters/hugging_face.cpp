// SPDX-License-Identifier: Apache-2.0
// Source: huggingface/transformers v5.24 training_args.py: OptimizerNames; models/llama,
// models/deepseek_v3: names of linear modules; huggingface/peft tuners/lora/config.py
// (target_modules, modules_to_save).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "exporters/fact.hpp"
#include "exporters/readers.hpp"
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

constexpr std::array<std::string_view, 3> kMlpWords{"gate", "up", "down"};

template <typename Table>
const ModuleName* find(const Table& table, std::string_view ModuleName::*field,
                       std::string_view text) {
  const auto found =
      std::ranges::find_if(table, [&](const ModuleName& row) { return row.*field == text; });
  return found == table.end() ? nullptr : &*found;
}

bool names(const LoraDescription& lora, std::string_view word) {
  return std::ranges::find(lora.targets, word) != lora.targets.end();
}

bool is_mlp(std::string_view word) {
  return std::ranges::find(kMlpWords, word) != kMlpWords.end();
}

/// A list, or words between commas or blanks.
std::vector<std::string> listed(const Value& value) {
  if (!value.is_array()) return words_of(text_in(value), " ,");
  return transformed(value, [&](const Value& item) { return text_in(item); });
}

void add_target(Reading& r, std::string_view word) {
  std::string text = r.asked.lora_targets.value_or("");
  r.asked.lora_targets = text.empty() ? std::string(word) : fmt::format("{},{}", text, word);
}

/// Null where every parameter is trained.
const LoraDescription* adapters_of(const ExportRequest& h) {
  const auto& lora = h.model().training.lora;
  return lora ? &*lora : nullptr;
}

/// Whether every linear product of the layers has an adapter, by that one word.
bool adapts_all(const ExportRequest& h) {
  const LoraDescription* lora = adapters_of(h);
  return lora != nullptr && names(*lora, "all-linear");
}

/// peft's target_modules by name; null where there are none, or one word says all.
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

/// peft's modules_to_save: tables that are trained whole; null for none.
Value trained_tables(const ExportRequest& h) {
  const LoraDescription* lora = adapters_of(h);
  Value modules = Value::array();
  for (const ModuleName& row : kTables)
    if (lora != nullptr && names(*lora, row.word)) modules.push_back(row.module);
  return modules.empty() ? Value() : modules;
}

/// transformers/training_args.py: OptimizerNames. The 8-bit moments are torchao's: those of
/// bitsandbytes do not run under FSDP 2. Pages and Lion are bitsandbytes'.
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

bool fully_shards(H h) {
  return h.sharded() && h.degrees.zero >= ZeroStage::Gradients;
}

using C = plansearch::Setting;

/// The word of --kernels for logits that are made and used in pieces.
constexpr const char* kFusedLoss = "fused-linear-loss";

/// LLaMA-Factory's finetuning_args.py: RLHFArguments.
void read_stage(R r, V v) {
  const std::string word = text_in(v);
  if (word == "pretrain" || word == "dpo") r.asked.task = word;
  if (word != "pretrain" && word != "dpo" && word != "sft")
    throw WrongValue(fmt::format("stage {} has no price", word));
}

// clang-format off
Facts sharding_facts() {
  return {
      {"distributed_type", {s(D::Zero)}, [](H) { return Value("FSDP"); }},
      {"fsdp_strategy", {s(D::Zero)}},
      {"fully_sharded", {s(D::Zero)}, [](H h) { return Value(fully_shards(h)); }},
      {"reshards", {s(D::Zero)}, [](H h) { return where(fully_shards(h), h.degrees.zero == ZeroStage::Parameters); }},
      {"fsdp_words", {s(D::Zero)},
       [](H h) {
         return where(fully_shards(h), h.degrees.zero == ZeroStage::Parameters ? "full_shard auto_wrap" : "shard_grad_op auto_wrap");
       }},
      {"fsdp_ranks", {s(D::ShardGroup), s(D::Zero)}, [](H h) { return where(fully_shards(h), h.shard_ranks()); }},
      {"fsdp_replicas", {s(D::ShardGroup)},
       [](H h) { return where(fully_shards(h) && h.degrees.data > h.shard_ranks(), h.degrees.data / h.shard_ranks()); }},
      {"shard_replicas", {s(D::ShardGroup), s(D::Data)}, [](H h) { return Value(h.degrees.data / h.shard_ranks()); }},
      {"deepspeed_file", {}},
      {"cut_by_context", {}, [](H h) { return Value(h.degrees.context > 1); }},
      {"checkpointing", {s(D::Recompute)}, [](H h) { return Value(h.degrees.recompute == Recompute::Full); },
       [](R r, V v) { if (is_on(v)) r.degrees.recompute = Recompute::Full; }},
      // varlen_llama3 runs on packed sequences, batch_ring on whole ones.
      {"packs_or_gathers", {s(D::ContextKind), chosen(C::Packing)},
       [](H h) {
         if (h.degrees.context == 1) return where(h.chosen.packing.has_value(), true);
         return Value(h.degrees.context_kind == ContextKind::AllGather);
       },
       [](R r, V v) { find_fact("packs")->read(r, v); }},
      // Pairs are counted where the task has them.
      {"sequences_or_pairs", {s(D::MicroBatch)},
       [](H h) { return Value(h.degrees.micro_batch / (h.chosen.task == "dpo" ? 2 : 1)); },
       [](R r, V v) { r.degrees.micro_batch = count_in(v); }},
      {"whole_batch", {}},
      {"trainer_batches", {},
       [](H h) {
         return Value(fmt::format("with transformers' Trainer: gradient_accumulation_steps={}, "
                                  "per_device_train_batch_size={}; it reads no variable",
                                  h.degrees.micro_batches, h.degrees.micro_batch));
       }},
  };
}

Facts trainer_formats() {
  return {
      {"bf16_or_fp32", {S::Precision}, [](H h) { return Value(h.problem.precision == DataType::Bf16); },
       [](R r, V v) {
         if (is_on(v))
           r.asked.precision = "bf16";
         else if (r.asked.precision == "bf16")
           r.asked.precision = "fp32";
       }},
      {"tf32", {S::Precision},
       [](H h) { return where(has_precision(h, {DataType::Tf32, DataType::Fp32}), h.problem.precision == DataType::Tf32); }},
      {"fp8", {}, {}, [](R r, V v) { if (is_on(v)) r.asked.precision = "fp8"; }},
      {"optimizer_name", {S::Optimizer, chosen(C::OptimizerStates)}, [](H h) { return Value(optimizer_name(h)); }, read_optimizer_name},
      {"optimizer_of_torch", {S::Optimizer}, [](H h) { return Value(h.optimizer == "sgd" ? "sgd" : "adam"); }, read_optimizer_name},
      {"muon", {}, {}, [](R r, V v) { if (is_on(v)) r.asked.optimizer = "muon"; }},
      {"training_stage", {chosen(C::Task)},
       [](H h) { return Value(h.chosen.task == "pretrain" || h.chosen.task == "dpo" ? *h.chosen.task : "sft"); }, read_stage},
      {"learns_preferences", {chosen(C::Task)}, [](H h) { return where(h.chosen.task == "dpo", true); },
       [](R r, V v) { if (is_on(v)) r.asked.task = "dpo"; }},
      {"fused_linear_loss", {chosen(C::Kernels)},
       [](H h) { return where(h.chosen.kernels.value_or("").find(kFusedLoss) != std::string::npos, true); },
       [](R r, V v) { if (is_on(v)) r.asked.kernels = kFusedLoss; }},
      {"kernels_beside_loss", {},
       [](H h) { return Value(h.chosen.kernels && *h.chosen.kernels != kFusedLoss); }},
      {"output_folder", {S::Checkpoints},
       [](H h) { return Value(h.job.checkpoints.empty() ? fmt::format("./plan-{}", h.identity) : h.job.checkpoints); }},
  };
}

Facts trainer_adapters() {
  const Setting rank = chosen(C::LoraRank), targets = chosen(C::LoraTargets), base = chosen(C::BasePrecision);
  return {
      {"adapter_kind", {rank},
       [](H h) { return where(adapters_of(h) != nullptr, h.chosen.base_precision == "nf4" ? "qlora" : "lora"); }},
      {"tuning", {}},
      {"adapter_scale", {}, [](H h) { return adapters_of(h) != nullptr ? Value(2 * adapters_of(h)->rank) : Value(); }},
      {"adapts_all", {targets, rank}, [](H h) { return Value(adapts_all(h)); }},
      {"modules_by_name", {targets, rank}, adapter_modules},
      {"adapted_modules", {targets, rank}, [](H h) { return adapts_all(h) ? Value(kAllLinear) : adapter_modules(h); }},
      {"trained_tables", {targets}, trained_tables},
      {"nf4_base", {base}, [](H h) { return Value(h.chosen.base_precision == "nf4"); },
       [](R r, V v) { if (is_on(v)) r.asked.base_precision = "nf4"; }},
      {"int8_base", {base}, [](H h) { return Value(h.chosen.base_precision == "int8"); },
       [](R r, V v) { if (is_on(v)) r.asked.base_precision = "int8"; }},
  };
}

Facts trainer_conditions() {
  return {
      {"fused_adapters", {},
       [](H h) { return Value(adapters_of(h) != nullptr && !adapts_all(h) && h.model().attention.fused_projection); }},
      {"tables_beside_adapters", {}, [](H h) { return Value(!trained_tables(h).is_null()); }},
      {"replicas_share_nothing", {}, [](H h) { return Value(h.shard_ranks() == 1 && h.degrees.data > 1); }},
      {"cut_replicas_share_nothing", {},
       [](H h) {
         return Value(h.shard_ranks() == 1 && h.degrees.data > 1 && (h.degrees.tensor_out > 1 || h.degrees.context > 1));
       }},
      {"cut_without_fsdp", {},
       [](H h) {
         return Value(h.degrees.zero == ZeroStage::None && h.degrees.data > 1 &&
                      (h.degrees.tensor_out > 1 || h.degrees.context > 1));
       }},
      {"several_packed_by_gathers", {},
       [](H h) {
         return Value(h.degrees.context > 1 && h.degrees.micro_batch > 1 && h.degrees.context_kind == ContextKind::AllGather);
       }},
      {"packed_by_rings", {},
       [](H h) { return Value(h.chosen.packing && h.degrees.context > 1 && h.degrees.context_kind == ContextKind::Ring); }},
      {"unfused_context", {}, [](H h) { return Value(h.degrees.context > 1 && h.attention == "unfused"); }},
      {"packed_pairs", {}, [](H h) { return Value(h.chosen.packing && h.chosen.task == "dpo"); }},
      {"packed_unsupervised", {},
       [](H h) { return Value(h.chosen.packing && (h.chosen.task == "pretrain" || h.chosen.task == "dpo")); }},
      {"packed_several", {}, [](H h) { return Value(h.chosen.packing && h.degrees.micro_batch > 1); }},
      {"not_packed", {}, [](H h) { return Value(!h.chosen.packing); }},
  };
}
// clang-format on

}  // namespace

void read_adapter_modules(Reading& r, const Value& value) {
  for (const std::string& module : listed(value)) {
    if (module == kAllLinear) {
      add_target(r, kAllLinear);
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

Facts trainer_facts() {
  return joined<Fact>(
      {sharding_facts(), trainer_formats(), trainer_adapters(), trainer_conditions()});
}

}  // namespace plansearch::exporters
