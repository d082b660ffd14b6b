// SPDX-License-Identifier: Apache-2.0
// Computes: bytes that one micro-batch of one block keeps on one device.
// Source: the operators' saved tensors (Korthikanti et al., arXiv 2205.05198, section 4), sharded
//         as placed; copies that eager kernels keep are constants of the framework.
// Assumes: full recompute keeps the inputs of a block; a gathered input is not saved.
// Units: bytes, elements.
// Checked by: tests/unit/evaluate/block_memory_test.cpp; docs/validation.md (allocator peaks)
#include "evaluate/block_memory.hpp"

#include <algorithm>

#include "cost/kernel_shape.hpp"
#include "plan/recompute.hpp"

namespace plansearch {
namespace {

class BlockKeeper {
 public:
  BlockKeeper(const ClassContext& context, const Block& block, const BlockPlacement& placement)
      : context_(context), block_(block), placement_(placement) {}

  BlockMemory run() {
    add_edges();
    Bytes all;
    Bytes kept;
    const SelectiveRule rule = context_.problem.framework->selective;
    const std::vector<double> repeated = repeated_shares(block_, context_.plan.recompute, rule);
    for (std::size_t i = 0; i < block_.operators.size(); ++i) {
      const Operator& op = block_.operators[i];
      const Bytes bytes = saved_by(op) + eager_copies(i);
      all += bytes;
      if (repeated[i] == 0.0) kept += bytes;
      if (op.kind == OperatorKind::CrossEntropy) {
        memory_.loss += bytes;
        memory_.logits += elements(i, op.inputs.front());
      }
      memory_.kept_for_weights += kept_for_weights(i);
      if (op.kind == OperatorKind::Matmul) {
        memory_.stream = std::max(memory_.stream, hidden_elements(i, op.inputs.front()));
      }
    }
    if (context_.plan.recompute == Recompute::Selective &&
        rule == SelectiveRule::AlternateMatmuls) {
      kept = inputs_ + policy_outputs(repeated);
    }
    memory_.saved = repeats_whole(block_, context_.plan.recompute) ? inputs_ : kept;
    memory_.working_set = std::max(all - memory_.saved, Bytes(0));
    return memory_;
  }

 private:
  [[nodiscard]] double elements(std::size_t op, TensorId id) const {
    return local_tensor_elements(*context_.problem.network, block_, op, id, context_.rules,
                                 placement_);
  }

  /// A tensor is kept as it was produced: what a consumer gathers is gathered again in backward.
  [[nodiscard]] double kept_elements(TensorId id) const {
    for (std::size_t i = 0; i < block_.operators.size(); ++i) {
      const std::vector<TensorId>& outputs = block_.operators[i].outputs;
      if (std::find(outputs.begin(), outputs.end(), id) != outputs.end()) return elements(i, id);
    }
    return edge_elements(id);
  }

  [[nodiscard]] Bytes saved_by(const Operator& op) const {
    Bytes bytes;
    for (const TensorId id : op.saved) {
      bytes += element_size(block_.tensor(id).element, context_.precision) * kept_elements(id);
    }
    return bytes;
  }

  /// The two operands of an operator's weight gradient.
  [[nodiscard]] Bytes kept_for_weights(std::size_t index) const {
    const Operator& op = block_.operators[index];
    const bool linear = op.kind == OperatorKind::Matmul || op.kind == OperatorKind::GroupedMatmul;
    const bool trains = std::any_of(
        op.parameters.begin(), op.parameters.end(),
        [&](ParameterId id) { return block_.parameter(id).trainable == Trainable::Yes; });
    if (!linear || !trains) return Bytes(0);
    const bool input_listed =
        index > 0 && !op.fused_key.empty() && block_.operators[index - 1].fused_key == op.fused_key;
    Bytes bytes;
    if (!input_listed) {
      const TensorId input = op.inputs.front();
      bytes +=
          element_size(block_.tensor(input).element, context_.precision) * kept_elements(input);
    }
    for (const TensorId id : op.outputs) {
      bytes += element_size(block_.tensor(id).element, context_.precision) * elements(index, id);
    }
    return bytes;
  }

  /// A policy by operator keeps whole outputs, needed by backward or not.
  [[nodiscard]] Bytes policy_outputs(const std::vector<double>& repeated) const {
    Bytes bytes;
    for (std::size_t i = 0; i < block_.operators.size(); ++i) {
      for (const TensorId id : block_.operators[i].outputs) {
        bytes += element_size(block_.tensor(id).element, context_.precision) *
                 (elements(i, id) * (1.0 - repeated[i]));
      }
    }
    return bytes;
  }

  /// What kernels that are not fused keep besides: layout copies and unrotated heads around fused
  /// attention, the activated gate of a gated MLP.
  [[nodiscard]] Bytes eager_copies(std::size_t index) const {
    const Operator& op = block_.operators[index];
    if (op.kind == OperatorKind::Attention) {
      return Bytes(context_.constants.memory_attention_copies * elements(index, op.inputs.front()));
    }
    if (op.kind != OperatorKind::Elementwise || op.saved.empty()) return Bytes(0);
    const double in = elements(index, op.saved.front());
    const double out = elements(index, op.outputs.front());
    return in > out ? Bytes(context_.constants.memory_gate_copies * out) : Bytes(0);
  }

  /// Elements of an activation that carries hidden features, zero for others.
  [[nodiscard]] double hidden_elements(std::size_t op, TensorId id) const {
    const std::vector<DimId>& dims = block_.tensor(id).dims;
    const bool hidden = std::any_of(dims.begin(), dims.end(), [&](DimId dim) {
      return context_.problem.network->dimension(dim).role == DimRole::Hidden;
    });
    return hidden ? elements(op, id) : 0.0;
  }

  /// Of what enters or leaves the block, in the layout its neighbours agree on.
  [[nodiscard]] double edge_elements(TensorId id) const {
    std::vector<double> extents;
    for (const DimId dim : block_.tensor(id).dims) {
      extents.push_back(context_.rules.extents[static_cast<std::size_t>(dim)]);
    }
    return local_elements(edge_layout(*context_.problem.network, block_, id, context_.rules),
                          context_.rules.mesh, extents);
  }

  void add_edges() {
    const Bytes activation = element_size(context_.precision.activation);
    for (const TensorId id : block_.inputs) inputs_ += activation * edge_elements(id);
    for (const TensorId id : block_.outputs) memory_.boundary += activation * edge_elements(id);
  }

  const ClassContext& context_;
  const Block& block_;
  const BlockPlacement& placement_;
  BlockMemory memory_;
  Bytes inputs_;
};

}  // namespace

BlockMemory block_memory(const ClassContext& context, const Block& block,
                         const BlockPlacement& placement) {
  return BlockKeeper(context, block, placement).run();
}

}  // namespace plansearch
