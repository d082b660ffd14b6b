// SPDX-License-Identifier: Apache-2.0
// A uniform plan as plain values: the degrees a user types and what the search enumerates.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "plansearch/dispatcher.hpp"
#include "plansearch/layer_module.hpp"
#include "plansearch/schedule_id.hpp"

namespace plansearch {

enum class Recompute : std::uint8_t { None, Selective, Full };
/// Ring: keys and values pass from rank to rank. Ulysses: heads are exchanged for the sequence.
/// AllGather: every rank gathers all keys and values.
enum class ContextKind : std::uint8_t { Ring, Ulysses, AllGather };
enum class SequenceParallel : std::uint8_t { Off, On };
/// Ring: products of layers take their rows tile by tile over the tensor group, in place of the
/// gathers and scatters of sequence parallelism (collective matmul).
enum class Temporal : std::uint8_t { None, Ring };
/// The tensors that data parallelism shards: none, optimizer states, + gradients, + parameters.
enum class ZeroStage : std::uint8_t { None = 0, Optimizer = 1, Gradients = 2, Parameters = 3 };

[[nodiscard]] std::string_view to_text(Recompute value);
[[nodiscard]] std::string_view to_text(ContextKind value);

/// A product of counts of at least 1. A product that an `int` does not hold becomes the largest
/// one, beyond the ranks of any machine.
[[nodiscard]] constexpr int product_of_counts(std::initializer_list<int> counts) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  std::int64_t product = 1;
  for (const int count : counts) product = std::min(product * count, kMost);
  return static_cast<int>(product);
}

struct PlanDegrees {
  int data = 1;           ///< dp
  int pipeline = 1;       ///< pp
  int chunks = 1;         ///< vpp: model chunks per pipeline stage
  int tensor_in = 1;      ///< tp-x
  int tensor_out = 1;     ///< tp-y; Megatron's tp
  int tensor_depth = 1;   ///< tp-z
  int context = 1;        ///< cp
  int expert = 1;         ///< ep; spans data x context x tensor ranks
  int expert_tensor = 1;  ///< etp
  int shard_group = 0;    ///< ranks that share one copy under ZeRO; 0: all data ranks
  int micro_batch = 1;    ///< sequences per device and micro-batch
  int micro_batches = 1;  ///< per step
  /// Over-decomposition: equal pieces of a micro-batch that take turns inside every block.
  int pieces = 1;
  ContextKind context_kind = ContextKind::Ring;
  SequenceParallel sequence_parallel = SequenceParallel::Off;
  Temporal temporal = Temporal::None;
  ZeroStage zero = ZeroStage::None;
  Recompute recompute = Recompute::None;
  int recompute_layers = 0;  ///< of full recomputation: first layers of every chunk; 0: all
  ScheduleId schedule = kDefaultSchedule;
  /// Parts of a layer that selective recomputation runs again, bits of LayerModules; 0: those of
  /// the framework's own policy.
  std::uint8_t modules = 0;
  DispatcherId dispatcher = kOwnDispatcher;  ///< of tokens to their experts
  HostBits on_host = 0;                      ///< tensors in memory of the host

  [[nodiscard]] int tensor() const {
    return product_of_counts({tensor_in, tensor_out, tensor_depth});
  }
  /// The ranks of one pipeline stage.
  [[nodiscard]] int stage_ranks() const { return product_of_counts({data, context, tensor()}); }
  [[nodiscard]] int devices() const { return product_of_counts({pipeline, stage_ranks()}); }
  /// The ranks that share the experts of a layer.
  [[nodiscard]] int expert_ranks() const { return product_of_counts({expert, expert_tensor}); }
  [[nodiscard]] int virtual_stages() const { return product_of_counts({pipeline, chunks}); }
  [[nodiscard]] std::int64_t global_batch() const {
    return std::int64_t{1} * data * tensor_depth * micro_batch * micro_batches;
  }
  auto operator<=>(const PlanDegrees&) const = default;
};

}  // namespace plansearch
