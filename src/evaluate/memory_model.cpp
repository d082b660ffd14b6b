// SPDX-License-Identifier: Apache-2.0
// Computes: peak memory of one device: states, activations in flight, working set, buffers.
// Source: activations from the operators' saved tensors (Korthikanti et al., arXiv 2205.05198) and
//         the order of the schedule; states from tensor policies (ZeRO, arXiv 1910.02054).
// Assumes: the peak is in backward of the last stage's loss or of the block with most saved bytes.
// Units: bytes.
// Checked by: tests/unit/evaluate/memory_model_test.cpp; docs/validation.md (allocator peaks)
#include "memory_model.hpp"

#include <algorithm>

#include "plansearch/cost/kernel_shape.hpp"

namespace plansearch {
namespace {

struct BlockShares {
  Bytes saved;
  Bytes working_set;
  double live = 0.0;    ///< local elements of the residual stream
  double logits = 0.0;
};

BlockShares shares_of(const PlanView& view, const std::vector<double>& copies) {
  BlockShares shares;
  for (std::size_t b = 0; b < copies.size(); ++b) {
    if (copies[b] <= 0.0) continue;
    const BlockProfile& block = view.profile.blocks[b];
    shares.saved += block.saved * copies[b];
    shares.working_set = std::max(shares.working_set, block.working_set);
    shares.live = std::max(shares.live, block.tokens_hidden);
    shares.logits = std::max(shares.logits, block.logits);
  }
  return shares;
}

void add_states(const PlanView& view, int device, MemoryBreakdown& memory) {
  const ParameterCount n = device_parameters(view, device);
  const StaticBytes& dense = view.statics.dense;
  const StaticBytes& expert = view.statics.expert;
  memory.parameters = Bytes(n.dense * dense.parameter + n.expert * expert.parameter);
  memory.gradients =
      Bytes(n.trainable_dense * dense.gradient + n.trainable_expert * expert.gradient);
  memory.optimizer =
      Bytes(n.trainable_dense * dense.optimizer + n.trainable_expert * expert.optimizer);
}

/// Parameters gathered for use under full sharding.
Bytes gathered_parameters(const PlanView& view, int device) {
  // Two units are in flight: the one in use and the one gathered ahead.
  if (view.plan.zero != ZeroStage::Parameters) return Bytes(0);
  double largest = 0.0;
  for_each_chunk(view.layout, device, [&](std::size_t content) {
    const auto& copies = view.layout.contents[content];
    for (std::size_t b = 0; b < copies.size(); ++b) {
      if (copies[b] <= 0.0) continue;
      const ParameterCount& n = view.profile.blocks[b].parameters;
      largest = std::max(largest, n.dense + n.expert);
    }
  });
  return element_size(view.precision.gather) * (2.0 * largest);
}

}  // namespace

MemoryBreakdown device_memory(const PlanView& view, int device, EvaluationWorkspace& workspace) {
  const FrameworkConstants& constants = view.constants;
  MemoryBreakdown memory;
  add_states(view, device, memory);
  BlockShares most;
  workspace.chunk_bytes.clear();
  for_each_chunk(view.layout, device, [&](std::size_t content) {
    const auto& copies = view.layout.contents[content];
    const BlockShares shares = shares_of(view, copies);
    workspace.chunk_bytes.push_back(shares.saved);
    most.working_set = std::max(most.working_set, shares.working_set);
    most.live = std::max(most.live, shares.live);
    most.logits = std::max(most.logits, shares.logits);
  });
  const PipelineShape shape{view.plan.schedule, view.layout.stages, view.plan.micro_batches,
                            view.layout.chunks};
  memory.activations = peak_activation_bytes(shape, device, workspace.chunk_bytes);
  const double previous = view.plan.micro_batches > 1 ? constants.memory_previous_logit_bytes : 0.0;
  const Bytes loss((constants.memory_logit_bytes + previous) * most.logits);
  const Bytes block = most.working_set + Bytes(constants.memory_live_bytes * most.live);
  memory.transient = std::max(loss, block);
  memory.buffers = constants.memory_workspace + gathered_parameters(view, device);
  const Bytes allocated = memory.total();
  memory.reserve = constants.memory_context +
                   allocated * (constants.memory_fragmentation - 1.0);
  return memory;
}

DeviceMemory worst_device_memory(const PlanView& view, EvaluationWorkspace& workspace) {
  DeviceMemory worst;
  for (int device = 0; device < view.layout.stages; ++device) {
    const MemoryBreakdown memory = device_memory(view, device, workspace);
    if (device == 0 || memory.total() > worst.memory.total()) worst = {memory, device};
  }
  return worst;
}

}  // namespace plansearch
