// SPDX-License-Identifier: Apache-2.0
// The fitted numbers of a framework file (docs/frameworks.md): a field and a row each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "plansearch/quantity.hpp"

namespace plansearch {

/// Communication that a framework can hide, and behind what.
enum class Overlap : std::uint8_t {
  GradientReduction,  ///< bucketed, under the last backward
  ParameterGather,    ///< under the next forward (ZeRO-1) or one unit ahead (FSDP)
  PipelineSend,       ///< asynchronous sends under compute
  TensorParallel,     ///< user-buffer or decomposed collectives under matmuls
  ContextRing,        ///< K/V ring under attention
  ExpertAllToAll,
};
inline constexpr std::size_t kOverlapCount = 6;
[[nodiscard]] std::string_view to_text(Overlap overlap);

/// How far what a plan really needs lies from its predicted peak: half of all plans need more than
/// `median` times it, and around that the logarithm is normal, with a deviation of its own on
/// either side.
struct MemoryError {
  double median = 1.0;
  double below = 0.0;
  double above = 0.0;
};

/// A framework file gives all of them; what each means stands in its row.
struct FrameworkConstants {
  Seconds host_launch;
  Seconds host_step;
  Seconds host_parameter;
  Seconds host_slice;
  bool host_runs_ahead_of_stage = false;
  bool boundary_scatter_gather = false;
  Seconds collective_call;
  Seconds collective_rank;
  Seconds collective_skew;
  Seconds collective_skew_across_nodes;
  double attention_factor = 1.0;
  double accumulation_bytes = 0.0;
  double optimizer_factor = 1.0;
  Seconds expert_launch;
  bool pads_products = false;
  double grouped_efficiency = 1.0;
  double sink_attention_factor = 1.0;
  std::array<double, kOverlapCount> contention{};  ///< by Overlap

  double memory_logit_bytes = 0.0;
  double memory_previous_logit_bytes = 0.0;
  double memory_live_bytes = 0.0;
  bool memory_loss_through_backward = false;
  bool memory_update_of_lists = false;
  double memory_attention_copies = 0.0;
  double memory_reduction_bytes = 0.0;
  Bytes memory_reduction_most;
  double memory_gathered_cached = 0.0;
  Bytes memory_context;
  Bytes memory_workspace;
  double memory_fragmentation = 1.0;
  MemoryError memory_error;

  double sigma = 0.0;
  double sigma_experts = 0.0;
  double paired_sigma = 0.0;
};

/// The field of a constant, in the unit of the field. A file writes a switch as 0 or 1.
using ConstantField = std::variant<double*, Seconds*, Bytes*, bool*>;

/// A row: the key under `constants` of a framework file, its field, and its meaning for users.
struct ConstantRow {
  std::string_view name;
  ConstantField (*field)(FrameworkConstants& constants);
  std::string_view meaning;
};
[[nodiscard]] std::span<const ConstantRow> framework_constant_rows();

/// How a tensor gets to groups that do not follow its producer.
enum class SkipRoute : std::uint8_t {
  Direct,   ///< a message from its producer to each group that reads it
  Relayed,  ///< with the message of every stage on the way
};

}  // namespace plansearch
