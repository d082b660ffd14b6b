// SPDX-License-Identifier: Apache-2.0
// The question of a user, before anything that was left open is settled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plansearch/degree_table.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// One for each setting below, in the order of setting_table.hpp.
enum class Setting : std::uint8_t {
  Hardware,
  Model,
  Framework,
  Gpus,
  Batch,
  SequenceLength,
  Task,
  Packing,
  Images,
  Precision,
  Optimizer,
  Attention,
  RankOrder,
  Overlap,
  Implementation,
  Kernels,
  MainGradients,
  Fp8Recipe,
  CudaGraphs,
  DelayWeightGradients,
  OptimizerInBackward,
  PagedStates,
  Routing,
  LoraRank,
  LoraTargets,
  BasePrecision,
  OptimizerStates,
  Tokens,
  Site,
  MemoryReserve,
  Rollout,
  MemoryRisk,
  Passes,
  MemoryCap,
  Set,
  Operators,
};
inline constexpr std::size_t kSettingCount = static_cast<std::size_t>(Setting::Operators) + 1;

/// A question in the words of the command line. Fields left out are settled from the model's
/// training block, the framework, the profile, or a default. `setting_table.hpp` has a row for
/// every setting below: its flag, its key in files, its words.
struct ProblemRequest {
  std::string hardware{};   ///< a shipped name, an alias or a file
  std::string model{};      ///< the same, or a Hugging Face config.json
  std::string framework{};  ///< default: megatron
  std::string target{};     ///< as `framework`; a plan it cannot express is an answer of its own
  std::optional<int> gpus{};
  std::optional<int> nodes{};           ///< instead of `gpus`
  std::optional<std::int64_t> batch{};  ///< sequences per optimizer step
  std::optional<std::int64_t> seq_len{};
  std::optional<std::string> task{};     ///< pretrain, sft, lora, dpo
  std::optional<std::string> packing{};  ///< lengths of the documents that fill a sequence
  std::optional<std::string> images{};   ///< in a sequence: "4", "4,frozen"
  std::optional<std::string> precision{};
  std::optional<std::string> optimizer{};       ///< adam, lion, paged-adamw-8bit, ...
  std::optional<std::string> attention{};       ///< flash, unfused
  std::optional<std::string> rank_order{};      ///< axes, fastest first, such as tp-cp-dp-pp
  std::optional<std::string> overlap{};         ///< all, none, or a list such as grad,param
  std::optional<std::string> implementation{};  ///< eager, fused, compiled, te
  std::optional<std::string> kernels{};         ///< single ones, such as "flash2 fused-norm"
  std::optional<std::string> main_grads{};      ///< bf16, fp16, fp32
  std::optional<std::string> fp8_recipe{};      ///< tensorwise, rowwise, delayed, block, mxfp8
  std::optional<std::string> cuda_graphs{};     ///< 0, 1
  std::optional<std::string> delay_wgrad{};     ///< 0, 1
  std::optional<std::string> optimizer_in_backward{};  ///< 0, 1
  std::optional<std::string> paged_states{};           ///< 0, 1
  std::optional<std::string> routing{};                ///< balanced, auxiliary, real, or a number
  std::optional<std::int64_t> lora_rank{};             ///< adapters of this rank, all else frozen
  std::optional<std::string> lora_targets{};      ///< such as "q,v"; default: the model's, else q,v
  std::optional<std::string> base_precision{};    ///< of weights that are not trained: nf4, ...
  std::optional<std::string> optimizer_states{};  ///< format of moments: fp32, bf16, int8, ...
  std::optional<std::string> mem_reserve{};       ///< such as "2 GiB"
  std::optional<std::string> rollout{};           ///< "util=0.6,tp=2,buffer=1 GiB,asleep"
  std::optional<std::string> site{};              ///< typical, tuned, or a measured one
  std::optional<double> mem_risk{};               ///< of running out of memory that plans may have
  /// Values of the data files to replace: "tiers.nvlink.bandwidth=225GB/s; model.layers=40".
  std::optional<std::string> set{};
  /// A file that says what unknown operators of an imported network are like (docs/imports.md).
  std::optional<std::string> operators{};

  /// Several sizes, batches or sequences to ask about, ascending; only questions with one answer
  /// each (ladders, comparisons) take them, in place of the single value above.
  std::vector<int> gpu_list{};
  std::vector<int> node_list{};
  std::vector<std::int64_t> batch_list{};
  std::vector<std::int64_t> seq_len_list{};

  std::optional<std::string> tokens{};  ///< to train on in all, such as "1T"
  std::optional<int> memory_cap{};      ///< micro-batches that orders made for the case may keep
  std::optional<std::string> passes{};  ///< over the program of a step: all, none, or a list

  std::string square{};     ///< "2x2": linear operators in steps over a square
  std::string space{};      ///< the plans to search, by name; default: framework
  PinnedDegrees degrees{};  ///< decided ones; the others are searched, or take their defaults
  DegreeLimits limits{};    ///< of degrees that are searched

  /// Keys ("batch", "gpus", ...) of which a plan document, not the user, gave the value.
  std::set<std::string, std::less<>> from_plan{};
  /// Hashes of the contents of "hardware" and "model" according to the plan document.
  std::map<std::string, std::string, std::less<>> content_hashes{};

  /// Who set a value that is present: "flag" or "plan".
  [[nodiscard]] std::string origin(std::string_view key) const {
    return from_plan.contains(key) ? "plan" : "flag";
  }
  bool operator==(const ProblemRequest&) const = default;
};

/// One entry of recipes/*.yaml.
struct Recipe {
  std::string name;
  std::string publisher;
  std::string source;                  ///< where it stands
  std::string date;                    ///< "2024-07", or a year
  ProblemRequest question{};           ///< model, machine, size, settings and degrees as published
  std::optional<Seconds> step_time{};  ///< as published
  bool operator==(const Recipe&) const = default;
};

}  // namespace plansearch
