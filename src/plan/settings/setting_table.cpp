// SPDX-License-Identifier: Apache-2.0
#include "plansearch/setting_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "base/units.hpp"
#include "plansearch/data_type.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

using R = ProblemRequest;
using Text = std::optional<std::string>;

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kAnyInt = std::numeric_limits<int>::max();

template <auto Member>
Text get_field(const R& request) {
  const auto& field = request.*Member;
  using Field = std::remove_cvref_t<decltype(field)>;
  if constexpr (std::is_same_v<Field, std::string>) {
    return field.empty() ? Text() : Text(field);
  } else {
    return field ? Text(fmt::format("{}", *field)) : Text();
  }
}

template <auto Member>
void set_field(R& request, const std::string& text) {
  auto& field = request.*Member;
  using Field = std::remove_cvref_t<decltype(field)>;
  if constexpr (std::is_same_v<Field, std::string> || std::is_same_v<Field, Text>) {
    field = text;
  } else if constexpr (std::is_same_v<Field, std::optional<double>>) {
    field = parse_number(text);
  } else {
    field = static_cast<typename Field::value_type>(parse_count(text).value());
  }
}

/// Fields that most rows share; those that differ are set by name below.
template <auto Member>
constexpr SettingRow row(Setting setting, std::string_view key, SettingKind kind,
                         std::string_view type, std::string_view help) {
  return {.setting = setting,
          .key = key,
          .flag_key = key,
          .kind = kind,
          .low = 1,
          .high = kAny,
          .type = type,
          .help = help,
          .column = key,
          .effect = SettingEffect::Price,
          .always_written = false,
          .lists = false,
          .set_list = nullptr,
          .get = get_field<Member>,
          .set = set_field<Member>};
}

constexpr SettingRow always(SettingRow result) {
  result.always_written = true;
  return result;
}
constexpr SettingRow listed(SettingRow result) {
  result.lists = true;
  return result;
}
template <auto List>
constexpr SettingRow listed(SettingRow result) {
  result.lists = true;
  result.set_list = [](R& request, const std::vector<std::int64_t>& values) {
    (request.*List).assign(values.begin(), values.end());
  };
  return result;
}
constexpr SettingRow below(SettingRow result, std::int64_t high) {
  result.high = high;
  return result;
}
/// Typed often.
constexpr SettingRow hardware(SettingRow result) {
  result.flag_key = result.column = "hw";
  return result;
}
constexpr SettingRow column(SettingRow result, std::string_view name) {
  result.column = name;
  return result;
}
/// Measured steps do not depend on it.
constexpr SettingRow changes(SettingRow result, SettingEffect effect) {
  result.effect = effect;
  result.column = {};
  return result;
}

/// "qlora" is short for adapters beside weights in nf4.
constexpr SettingRow task(SettingRow result) {
  result.set = [](R& request, const std::string& text) {
    const bool quantized = text == "qlora";
    request.task = quantized ? "lora" : text;
    if (quantized && !request.base_precision) request.base_precision = "nf4";
  };
  return result;
}

using S = Setting;
using K = SettingKind;

constexpr std::array<SettingRow, kSettingCount> kTable = {
    hardware(listed(always(row<&R::hardware>(S::Hardware, "hardware", K::Name, "HARDWARE",
                                             "hardware profile: a shipped name or a file")))),
    listed(always(row<&R::model>(
        S::Model, "model", K::Name, "MODEL",
        "model: a shipped name, a file, or a Hugging Face config.json or its folder"))),
    listed(always(row<&R::framework>(S::Framework, "framework", K::Name, "FRAMEWORK",
                                     "training framework (default: megatron)"))),
    listed<&R::gpu_list>(
        always(below(row<&R::gpus>(S::Gpus, "gpus", K::Count, "N",
                                   "number of accelerators (default: a ladder of sizes)"),
                     kAnyInt))),
    column(listed<&R::batch_list>(
               always(row<&R::batch>(S::Batch, "batch", K::Count, "N",
                                     "sequences per optimizer step: tokens over --seq-len"))),
           "global_batch"),
    listed<&R::seq_len_list>(always(
        row<&R::seq_len>(S::SequenceLength, "seq_len", K::Count, "N", "tokens per sequence"))),
    task(listed(row<&R::task>(
        S::Task, "task", K::Word, "pretrain|sft|lora|qlora|dpo",
        "training task; lora: adapters (of rank 16 unless said); qlora: the same, other weights "
        "in nf4; dpo: pairs of sequences, and a forward pass of a frozen reference"))),
    row<&R::packing>(S::Packing, "packing", K::Text, "LENGTHS",
                     "documents that share a sequence and see themselves alone: 512, "
                     "512x3+2048x1, exponential:512, lognormal:512:1.2, or a file of lengths"),
    row<&R::images>(S::Images, "images", K::Text, "N",
                    "images in a sequence, which the model's vision tower reads; 4,frozen or "
                    "4,trained says whether it is trained"),
    listed(always(row<&R::precision>(S::Precision, "precision", K::Format,
                                     "fp32|tf32|fp16|bf16|fp8|mxfp8|nvfp4",
                                     "number format of the matrix products"))),
    row<&R::optimizer>(
        S::Optimizer, "optimizer", K::Word,
        "adam|adamw|adamw-8bit|paged-adamw|paged-adamw-8bit|sgd|lion|lion-8bit|adafactor|muon",
        "optimizer; decides state memory"),
    row<&R::attention>(S::Attention, "attention", K::Word, "flash|unfused",
                       "attention kernel: fused or unfused"),
    row<&R::rank_order>(S::RankOrder, "rank_order", K::Text, "AXES",
                        "order of the axes over ranks, fastest first, such as tp-cp-dp-pp"),
    row<&R::overlap>(S::Overlap, "overlap", K::Text, "LIST",
                     "communication overlapped with compute: all, none, or a list such as "
                     "grad,param"),
    row<&R::implementation>(S::Implementation, "implementation", K::Text, "eager|fused|compiled|te",
                            "kernels of memory-bound operators"),
    row<&R::kernels>(
        S::Kernels, "kernels", K::Text, "LIST",
        "fused kernels, such as \"flash2 fused-norm\"; what is not named runs eagerly"),
    listed(row<&R::main_grads>(S::MainGradients, "main_grads", K::Format, "bf16|fp16|fp32",
                               "format in which gradients are added up and reduced")),
    row<&R::fp8_recipe>(S::Fp8Recipe, "fp8_recipe", K::Word,
                        "tensorwise|rowwise|delayed|block|mxfp8",
                        "scaling recipe of the inputs of fp8 products"),
    row<&R::cuda_graphs>(S::CudaGraphs, "cuda_graphs", K::Text, "0|1",
                         "CUDA graphs; 1: a captured graph issues the kernels of a step"),
    row<&R::delay_wgrad>(
        S::DelayWeightGradients, "delay_wgrad", K::Text, "0|1",
        "delayed weight gradients; 1: where an order joins forwards and backwards, they "
        "run while exchanges are on their way"),
    row<&R::optimizer_in_backward>(
        S::OptimizerInBackward, "optimizer_in_backward", K::Text, "0|1",
        "optimizer in backward; 1: parameters are updated as gradients are made"),
    row<&R::paged_states>(
        S::PagedStates, "paged_states", K::Text, "0|1",
        "paged optimizer states; 1: those for which a device has no room leave for the "
        "host between updates"),
    row<&R::routing>(
        S::Routing, "routing", K::Text, "KIND",
        "routing of tokens to experts: balanced, auxiliary, real, or tokens of the fullest rank "
        "over the mean, such as 1.3"),
    below(row<&R::lora_rank>(S::LoraRank, "lora_rank", K::Count, "N",
                             "rank of the adapters that are trained, all other weights frozen"),
          1 << 16),
    row<&R::lora_targets>(S::LoraTargets, "lora_targets", K::Text, "LIST",
                          "modules with an adapter, such as q,v or all-linear (default: q,v)"),
    listed(row<&R::base_precision>(S::BasePrecision, "base_precision", K::Format,
                                   "fp32|bf16|fp16|fp8|int8|nf4|int4",
                                   "format in which weights beside adapters are kept")),
    row<&R::optimizer_states>(S::OptimizerStates, "optimizer_states", K::Format,
                              "fp32|bf16|fp16|fp8|int8", "format of the optimizer's moments"),
    changes(row<&R::tokens>(S::Tokens, "tokens", K::Text, "COUNT",
                            "training tokens; adds days, GPU-hours, energy and price"),
            SettingEffect::Summary),
    column(
        row<&R::site>(
            S::Site, "site", K::Text, "SITE",
            "site factor on step time: typical (default), vendor or laboratory (typical of these), "
            "tuned (factor 1), or a "
            "measured laboratory"),
        {}),
    changes(row<&R::mem_reserve>(S::MemoryReserve, "mem_reserve", K::Text, "BYTES",
                                 "memory to keep free, such as \"2 GiB\""),
            SettingEffect::Room),
    changes(row<&R::rollout>(S::Rollout, "rollout", K::Text, "MEMORY",
                             "inference engine beside the trainer, as memory to keep free: "
                             "util=0.6 or bytes, with tp=2, buffer=1 GiB, asleep"),
            SettingEffect::Room),
    changes(row<&R::mem_risk>(S::MemoryRisk, "mem_risk", K::Share, "SHARE",
                              "accepted risk of running out of memory (default: 0.1)"),
            SettingEffect::Room),
    row<&R::passes>(S::Passes, "passes", K::Text, "LIST",
                    "communication scheduling passes: all, none, or a list such as "
                    "early-sends"),
    below(
        row<&R::memory_cap>(S::MemoryCap, "memory_cap", K::Count, "N",
                            "micro-batches that a device may keep under zb-auto (default: stages)"),
        1'000'000),
    column(row<&R::set>(S::Set, "set", K::Text, "KEY=VALUE",
                        "another value in a data file, such as tiers.nvlink.bandwidth=225GB/s, "
                        "framework.KEY=VALUE or model.KEY=VALUE; several times, or between ';'"),
           {}),
    column(row<&R::operators>(S::Operators, "operators", K::Text, "FILE",
                              "file of stubs, for unknown operators of an imported network"),
           {})};

/// Rows are found by their place.
constexpr bool in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable[i].setting) != i) return false;
  }
  return true;
}
static_assert(in_order());

/// A flag, one value or several, replaces the tensor degrees as a whole: their two spellings do not
/// mix.
void complete_degrees(ProblemRequest& asked, const PinnedDegrees& plan) {
  constexpr std::array kTensor{Degree::TensorIn, Degree::TensorOut, Degree::TensorDepth};
  const auto said = [&](Degree degree) {
    return asked.degrees.has(degree) || asked.limits.has(degree);
  };
  const bool tensor = std::ranges::any_of(kTensor, said);
  for (const DegreeRow& row : degree_table()) {
    const bool replaced = tensor && contains(kTensor, row.degree);
    const auto value = plan.get(row.degree);
    if (value && !replaced && !said(row.degree)) asked.degrees.pin(row.degree, *value);
  }
}

}  // namespace

const std::array<SettingRow, kSettingCount>& setting_table() {
  return kTable;
}

const SettingRow& row_of(Setting setting) {
  return kTable[static_cast<std::size_t>(setting)];
}

std::string flag_of(const SettingRow& row) {
  return flag_of(row.flag_key);
}

const SettingRow* find_setting(std::string_view key) {
  const auto* found = std::ranges::find(kTable, key, &SettingRow::key);
  return found == kTable.end() ? nullptr : found;
}

std::vector<std::string> words_of(const SettingRow& row) {
  const bool words = row.kind == SettingKind::Word || row.kind == SettingKind::Format;
  return words ? split(row.type, "|") : std::vector<std::string>();
}

std::string setting_problem(const SettingRow& row, std::string_view text) {
  switch (row.kind) {
    case SettingKind::Count: {
      const auto value = parse_count(text);
      if (!value) return fmt::format("'{}' is not a whole number", text);
      if (*value >= row.low && *value <= row.high) return {};
      return row.high == kAny ? fmt::format("{} is not at least {}", text, row.low)
                              : fmt::format("{} is not from {} to {}", text, row.low, row.high);
    }
    case SettingKind::Share: {
      const auto value = parse_number(text);
      if (value && *value > 0.0 && *value < 1.0) return {};
      return fmt::format("'{}' is not a probability between 0 and 1, such as 0.25", text);
    }
    case SettingKind::Word:
    case SettingKind::Format: {
      const std::vector<std::string> words = words_of(row);
      const auto format =
          row.kind == SettingKind::Format ? parse_stored_type(text) : std::optional<DataType>();
      const std::string_view word = format ? to_text(*format) : text;
      if (std::ranges::find(words, word) != words.end()) return {};
      const std::string guess = did_you_mean(text, words);
      return fmt::format("'{}' is none of {}{}{}", text, fmt::join(words, ", "),
                         guess.empty() ? "" : "; ", guess);
    }
    case SettingKind::Name:
    case SettingKind::Text:
      return text.empty() ? "the value is empty" : std::string();
  }
  throw InternalError("unknown kind of setting");
}

ProblemRequest completed(ProblemRequest asked, const ProblemRequest& plan) {
  const bool other_model = !asked.model.empty();  // whose operators a plan's file knows nothing of
  for (const SettingRow& row : kTable) {
    const bool replaced = (row.setting == Setting::Framework && !asked.target.empty()) ||
                          (row.setting == Setting::Gpus && asked.nodes) ||
                          (row.setting == Setting::Operators && other_model);
    const auto value = row.get(plan);
    if (!value || replaced || row.get(asked)) continue;
    row.set(asked, *value);
    asked.from_plan.emplace(row.key);
    const auto hash = plan.content_hashes.find(row.key);
    if (hash != plan.content_hashes.end()) asked.content_hashes.insert(*hash);
  }
  complete_degrees(asked, plan.degrees);
  return asked;
}

}  // namespace plansearch
