// SPDX-License-Identifier: Apache-2.0
// The fitted numbers of a framework file as named fields; a missing one is an error, never a zero.
#pragma once

#include <array>
#include <optional>

#include "evaluate/memory_risk.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// How far the host CPU may run ahead of the device before it waits: a block whose issue time is
/// longer than its device time is not made good by its neighbours, or only by those of its stage.
enum class HostRunAhead { Block, Stage };

/// What crosses a stage boundary when activations are replicated over tensor ranks: all of it from
/// every rank, or a slice from each that the receivers gather.
enum class BoundaryMessage { Whole, ScatterGather };

/// Whether the tensors of the loss are still there when the last block runs its backward.
enum class LossLifetime { FreedBeforeBlocks, ThroughBackward };

/// Whether products run on the widths that a plan leaves them, or on rows padded to whole vectors.
enum class ProductRows { AsCut, Padded };

/// Passes of an operator over its tensors.
struct PassCounts {
  PassCount forward;
  PassCount backward;
};

struct FrameworkConstants {
  Seconds host_launch;  ///< host CPU time to issue one kernel
  Seconds host_step;    ///< per optimizer step: data, logging, clipping
  HostRunAhead run_ahead = HostRunAhead::Block;
  BoundaryMessage boundary = BoundaryMessage::Whole;
  Seconds collective_call;               ///< added to every collective by launch and skew
  Seconds collective_rank;               ///< added per ring step inside a node
  Seconds collective_skew;               ///< host CPU time per rank of a tensor-parallel collective
  Seconds collective_skew_across_nodes;  ///< the same when the pipeline spans nodes
  /// By MemoryBound; absent: every tensor is read or written once.
  std::array<std::optional<PassCounts>, kMemoryBoundCount> passes{};
  double attention_factor;    ///< time of fused attention over the published curve
  double accumulation_bytes;  ///< moved per parameter and micro-batch to add up gradients
  double optimizer_factor;    ///< optimizer traffic over reading and writing every state once
  ProductRows product_rows = ProductRows::AsCut;
  Seconds expert_launch;         ///< per local expert and grouped matmul
  double grouped_efficiency;     ///< rate of grouped matmuls over plain ones
  double sink_attention_factor;  ///< slow-down of attention with learned sinks
  Seconds host_parameter;        ///< host CPU time per sharded parameter tensor and step
  Seconds host_slice;            ///< the same per rank that the tensor's states are cut over
  std::array<double, kOverlapCount> contention;  ///< slow-down per second of hidden communication

  double memory_logit_bytes;           ///< kept per logit at the peak of the last stage
  double memory_previous_logit_bytes;  ///< of the micro-batch before, still referenced
  LossLifetime loss_lifetime = LossLifetime::FreedBeforeBlocks;
  GradientStorage gradients = GradientStorage::Buffer;
  double memory_live_bytes;        ///< live per token and hidden feature around a block
  double memory_attention_copies;  ///< bytes kept per query element beside fused attention
  double memory_reduction_bytes;   ///< of reduction buffers per parameter, several data ranks
  double memory_gathered_cached;   ///< share of gathered inputs the allocator keeps
  Bytes memory_context;            ///< driver context and library memory of the process
  Bytes memory_workspace;          ///< kernel workspaces inside the allocator
  double memory_fragmentation;     ///< reserved over allocated
  MemoryError memory_error;        ///< of the predicted peak

  double sigma;          ///< log standard deviation of step times around predictions
  double sigma_experts;  ///< further error where experts do all the work
  double paired_sigma;   ///< the same for the ratio of two plans of one problem
};

/// Throws InputError naming the missing constant.
[[nodiscard]] FrameworkConstants framework_constants(const Framework& framework);

}  // namespace plansearch
