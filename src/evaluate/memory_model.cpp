// SPDX-License-Identifier: Apache-2.0
// Computes: peak memory of one device: states, activations in flight, working set, buffers.
// Source: activations from the operators' saved tensors (Korthikanti et al., arXiv 2205.05198) and
//         the order of the schedule; states from tensor policies (ZeRO, arXiv 1910.02054).
// Assumes: the peak is in backward of the last stage's loss or of the block with most saved bytes.
// Units: bytes.
// Checked by: tests/unit/evaluate/memory_model_test.cpp; docs/validation.md (allocator peaks)
#include "evaluate/memory_model.hpp"

#include <algorithm>

#include "cost/kernel_shape.hpp"
#include "plan/pipeline_shape.hpp"

namespace plansearch {
namespace {

/// The blocks of one virtual stage, or the most demanding of a device.
struct BlockShares {
  Bytes saved;
  Bytes working_set;
  Bytes loss;
  Bytes cached;
  double stream = 0.0;
  double logits = 0.0;
};

BlockShares shares_of(const PlanView& view, const std::vector<double>& copies) {
  BlockShares shares;
  for (std::size_t b = 0; b < copies.size(); ++b) {
    if (copies[b] <= 0.0) continue;
    const BlockMemory& block = view.profile.blocks[b].memory;
    shares.saved += block.saved * copies[b];
    shares.cached += block.cached * copies[b];
    shares.loss += block.loss;
    shares.working_set = std::max(shares.working_set, block.working_set);
    shares.stream = std::max(shares.stream, block.stream);
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
  if (view.mesh[Axis::Data].size > 1) {
    memory.buffers =
        Bytes((n.trainable_dense + n.trainable_expert) * view.constants.memory_reduction_bytes);
  }
  memory.optimizer =
      Bytes(n.trainable_dense * dense.optimizer + n.trainable_expert * expert.optimizer);
}

/// Full sharding: the unit in use and the one gathered ahead, and a gradient not yet reduced.
Bytes gathered_parameters(const PlanView& view, int device) {
  if (view.plan.zero != ZeroStage::Parameters) return Bytes(0);
  double largest = 0.0;
  for_each_chunk(view.layout, device, [&](std::size_t content) {
    const auto& copies = view.layout.contents[content];
    for (std::size_t b = 0; b < copies.size(); ++b) {
      if (copies[b] <= 0.0) continue;
      ParameterCount unit = view.profile.blocks[b].parameters;
      for (const SharedCount& shared : view.profile.blocks[b].shared) unit += shared.count;
      largest = std::max(largest, unit.dense + unit.expert);
    }
  });
  return element_size(view.precision.gather) * (2.0 * largest) +
         element_size(view.precision.reduction) * largest;
}

/// What lives only around one operator: the loss of the micro-batch before, tensors around a
/// block in backward. Where the loss is freed by then, only what exceeds it adds to the peak.
Bytes transient_bytes(const PlanView& view, const BlockShares& most) {
  const FrameworkConstants& constants = view.constants;
  const double previous = view.plan.micro_batches > 1 ? constants.memory_previous_logit_bytes : 0.0;
  const Bytes loss((constants.memory_logit_bytes + previous) * most.logits);
  const Bytes block = most.working_set + Bytes(constants.memory_live_bytes * most.stream);
  if (constants.loss_lifetime == LossLifetime::ThroughBackward) return loss + block;
  return std::max(loss, block - most.loss);
}

}  // namespace

DeviceMemory device_memory(const PlanView& view, int device, EvaluationWorkspace& workspace) {
  const FrameworkConstants& constants = view.constants;
  DeviceMemory result{{}, Bytes(0), device};
  MemoryBreakdown& memory = result.memory;
  add_states(view, device, memory);
  BlockShares most;
  BlockShares shares;
  std::size_t known = view.layout.contents.size();
  workspace.chunk_bytes.clear();
  for_each_chunk(view.layout, device, [&](std::size_t content) {
    if (content != known) shares = shares_of(view, view.layout.contents[content]);
    known = content;
    workspace.chunk_bytes.push_back(shares.saved);
    result.cached += shares.cached;
    most.working_set = std::max(most.working_set, shares.working_set);
    most.loss = std::max(most.loss, shares.loss);
    most.stream = std::max(most.stream, shares.stream);
    most.logits = std::max(most.logits, shares.logits);
  });
  const PipelineShape shape = pipeline_shape(view.plan, *view.problem.framework);
  memory.activations = peak_activation_bytes(shape, device, workspace.chunk_bytes);
  memory.transient = transient_bytes(view, most);
  memory.buffers += constants.memory_workspace + gathered_parameters(view, device);
  // A stage boundary waits for the device, and what was gathered is used again.
  result.cached =
      view.layout.stages > 1 ? Bytes(0) : result.cached * constants.memory_gathered_cached;
  result.cached += memory.total() * (constants.memory_fragmentation - 1.0);
  memory.reserve = constants.memory_context;
  return result;
}

namespace {

/// Of neighbours with equal blocks the first keeps at least as many micro-batches, all else equal.
bool same_contents(const PipelineLayout& layout, int device, int next) {
  for (int chunk = 0; chunk < layout.chunks; ++chunk) {
    const auto base = static_cast<std::size_t>(chunk * layout.stages);
    if (layout.content_of[base + static_cast<std::size_t>(device)] !=
        layout.content_of[base + static_cast<std::size_t>(next)]) {
      return false;
    }
  }
  return true;
}

}  // namespace

DeviceMemory worst_device_memory(const PlanView& view, EvaluationWorkspace& workspace) {
  DeviceMemory worst;
  for (int device = 0; device < view.layout.stages; ++device) {
    if (device > 0 && same_contents(view.layout, device - 1, device)) continue;
    const DeviceMemory memory = device_memory(view, device, workspace);
    if (device == 0 || memory.memory.total() > worst.memory.total()) worst = memory;
  }
  return worst;
}

}  // namespace plansearch
