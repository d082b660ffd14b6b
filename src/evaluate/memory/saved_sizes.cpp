// SPDX-License-Identifier: Apache-2.0
// Computes: bytes of single tensors that operators keep for backward, which of them wait on the
//           host, and quantised weights that products read in another format.
// Source: the operators' saved tensors (Korthikanti et al., arXiv 2205.05198, section 4), sharded
// as
//         placed; layout copies around attention are a constant of the framework;
//         cost/kernels/compute_cost.hpp: expanded weights that autograd keeps are there from
//         the last forward pass of a layer to its backward.
// Assumes: tensors that products alone read again may be kept in a format of their own
//          (precision.saved); products run one after the other, so that one weight at a time is
//          being expanded.
// Units: bytes, elements.
// Checked by: tests/unit/evaluate/block_memory_test.cpp; Qwen's published QLoRA peaks
//             (docs/lora.md)
#include "evaluate/memory/saved_sizes.hpp"

#include <algorithm>

#include "communication/derive/tensor_policy.hpp"
#include "cost/kernels/compute_cost.hpp"
#include "cost/kernels/kernel_shape.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "workload/network_edges.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {

namespace {

bool saves(const Operator& op, TensorId id) {
  return std::any_of(op.saved.begin(), op.saved.end(),
                     [&](const Saved& saved) { return saved.tensor == id; });
}

}  // namespace

bool only_products_read_again(const Block& block, const BlockIndex& index, TensorId id) {
  if (block.tensor(id).element != ElementClass::Activation) return false;
  const std::size_t producer = index.producers[static_cast<std::size_t>(id)];
  if (producer != kEdge && traits(block.operators[producer]).reads_outputs()) return false;
  return std::all_of(block.operators.begin(), block.operators.end(), [&](const Operator& op) {
    const bool reads = std::find(op.inputs.begin(), op.inputs.end(), id) != op.inputs.end();
    const OperatorTraits& row = traits(op);
    return !reads || row.multiplies_weight() || op.passes == MemoryBound::Activation ||
           op.passes == MemoryBound::GatedActivation || !(row.reads_inputs() || saves(op, id));
  });
}

namespace {

/// By operator, whether it is a product that keeps its input in a format of its own. Frozen ones
/// keep none, and adapters beside them read it in the activation format.
std::vector<bool> keeping_own_inputs(const PricingContext& context, const LocalBlock& local) {
  if (!context.precision.kept_inputs || !is_layer(local.block.kind)) return {};
  std::vector<bool> keeps;
  for (std::size_t i = 0; i < local.block.operators.size(); ++i) {
    const Operator& op = local.block.operators[i];
    const bool narrow = traits(op).multiplies_weight() &&
                        !multiplies_wide(*context.problem.network, local.block, op);
    if (narrow && !local.index.operators[i].trains_weight) return {};
    keeps.push_back(narrow);
  }
  return keeps;
}

}  // namespace

SavedSizes::SavedSizes(const PricingContext& context, const LocalBlock& local)
    : context_(context),
      local_(local),
      block_(local.block),
      keeps_own_input_(keeping_own_inputs(context, local)) {}

bool waits_on_host(const HostTensors& host, const Block& block, std::size_t op,
                   const Saved* saved) {
  if (!is_layer(block.kind)) return false;
  if (host.activations) return true;
  if (host.modules.none()) return false;
  const auto named = [&](const Operator& one) { return (one.modules & host.modules).any(); };
  if (named(block.operators[op])) return true;
  if (saved == nullptr || saved->as != SavedAs::Itself) return false;
  return std::any_of(block.operators.begin(), block.operators.end(), [&](const Operator& one) {
    return named(one) &&
           std::find(one.inputs.begin(), one.inputs.end(), saved->tensor) != one.inputs.end();
  });
}

Bytes SavedSizes::tile(TensorId id) const {
  return element_size(context_.precision.activation) * local_.sizes.edge(id);
}

double SavedSizes::kept_elements(TensorId id) const {
  const std::size_t producer = local_.index.producers[static_cast<std::size_t>(id)];
  return producer == kEdge ? local_.sizes.edge(id) : local_.sizes.tensor(producer, id);
}

Bytes SavedSizes::element(TensorId id) const {
  return element_size(block_.tensor(id).element, context_.precision);
}

bool SavedSizes::kept_by_products_alone(TensorId id) const {
  if (keeps_own_input_.empty() || block_.tensor(id).element != ElementClass::Activation)
    return false;
  const std::size_t producer = local_.index.producers[static_cast<std::size_t>(id)];
  if (producer != kEdge && traits(block_.operators[producer]).reads_outputs()) return false;
  bool any = false;
  for (const std::size_t reader : local_.index.consumers[static_cast<std::size_t>(id)]) {
    const Operator& op = block_.operators[reader];
    if (keeps_own_input_[reader]) {
      any = true;
    } else if (traits(op).reads_inputs() || saves(op, id)) {
      return false;
    }
  }
  return any;
}

Bytes SavedSizes::kept_element(TensorId id) const {
  if (kept_by_products_alone(id)) return scaled_size(*context_.precision.kept_inputs);
  const auto& saved = context_.precision.saved;
  return saved && only_products_read_again(block_, local_.index, id) ? scaled_size(*saved)
                                                                     : element(id);
}

Bytes SavedSizes::size_of(const Saved& saved) const {
  const Bytes size = saved.as == SavedAs::Single ? Bytes(4) : kept_element(saved.tensor);
  return size * (kept_elements(saved.tensor) * saved.count);
}

Bytes SavedSizes::saved_by(std::size_t index) const {
  const double share = loss_share(index);
  Bytes bytes;
  for (const Saved& saved : block_.operators[index].saved) bytes += saved_part(index, saved, share);
  return bytes + copies(index) + gradients_of_copy(index);
}

double SavedSizes::loss_share(std::size_t index) const {
  const Operator& op = block_.operators[index];
  const OperatorPasses* passes = context_.passes.at(static_cast<std::size_t>(op.passes));
  if (op.passes != MemoryBound::Loss || passes == nullptr) return 1.0;
  if (passes->chunks == 1.0) {
    const bool copied = context_.problem.framework->implementation.loss == LossInput::Single;
    return copied || passes->keeps == KeptTensors::Separate ? 1.0 : 0.0;
  }
  if (passes->chunks > 0.0) return 1.0 / passes->chunks;
  const TensorId logits = op.inputs.front();
  const std::size_t product = local_.index.producers[static_cast<std::size_t>(logits)];
  if (product == kEdge) return 1.0;
  const TensorId input = block_.operators[product].inputs.front();
  return std::min(1.0, local_.sizes.tensor(product, input) / local_.sizes.tensor(index, logits));
}

bool SavedSizes::rewrites_logits(std::size_t index) const {
  const Operator& op = block_.operators[index];
  const OperatorPasses* passes = context_.passes.at(static_cast<std::size_t>(op.passes));
  return op.passes == MemoryBound::Loss && passes != nullptr && passes->chunks == 1.0 &&
         passes->keeps != KeptTensors::Separate;
}

Bytes SavedSizes::gradients_of_copy(std::size_t index) const {
  const bool copied = context_.problem.framework->implementation.loss == LossInput::Single;
  if (!copied || !rewrites_logits(index)) return Bytes(0);
  const TensorId logits = block_.operators[index].inputs.front();
  return element(logits) * kept_elements(logits);
}

Bytes SavedSizes::saved_part(std::size_t index, const Saved& saved, double share) const {
  if (share >= 1.0) return size_of(saved);
  const OperatorPasses* passes = context_.passes.at(static_cast<std::size_t>(MemoryBound::Loss));
  const bool whole = !passes->multiplies && saved.tensor == block_.operators[index].inputs.front();
  return size_of(saved) * (whole ? 1.0 : share);
}

Bytes SavedSizes::copies(std::size_t index) const {
  const Operator& op = block_.operators[index];
  if (op.passes == MemoryBound::HeadLayout) {
    return Bytes(context_.constants.memory_attention_copies *
                 local_.sizes.tensor(index, op.inputs.front()));
  }
  const bool listed =
      !op.fused_key.empty() && index > 0 && block_.operators[index - 1].fused_key == op.fused_key;
  const bool keeps = !keeps_own_input_.empty() && keeps_own_input_[index];
  if (listed || !keeps || kept_by_products_alone(op.inputs.front())) {
    return Bytes(0);
  }
  return scaled_size(*context_.precision.kept_inputs) * kept_elements(op.inputs.front());
}

Bytes SavedSizes::kept_for_weights(std::size_t index, std::optional<TensorId> only) const {
  const Operator& op = block_.operators[index];
  if (!traits(op).multiplies_weight() || !local_.index.operators[index].trains_weight) {
    return Bytes(0);
  }
  const bool input_listed =
      index > 0 && !op.fused_key.empty() && block_.operators[index - 1].fused_key == op.fused_key;
  Bytes bytes;
  const TensorId input = op.inputs.front();
  if (!input_listed && input == only.value_or(input)) {
    bytes += kept_element(input) * kept_elements(input);
  }
  if (only) return bytes;
  for (const TensorId id : op.outputs) bytes += element(id) * local_.sizes.tensor(index, id);
  return bytes;
}

double SavedSizes::hidden_elements(std::size_t op, TensorId id) const {
  const std::vector<DimId>& dims = block_.tensor(id).dims;
  const bool hidden = std::any_of(dims.begin(), dims.end(), [&](DimId dim) {
    return context_.problem.network->dimension(dim).role == DimRole::Hidden;
  });
  return hidden ? local_.sizes.tensor(op, id) : 0.0;
}

void add_expanded_weights(const PricingContext& context, const LocalBlock& local, Recompute level,
                          BlockMemory& memory) {
  const auto& quantised = context.precision.quantised;
  if (!quantised) return;
  const DataType product = context.precision.activation;
  const WeightExpansion expansion = weight_expansion(*quantised, product);
  const std::vector<double>& repeated = local.repeated[static_cast<std::size_t>(level)];
  double largest = 0.0;
  for (std::size_t i = 0; i < local.block.operators.size(); ++i) {
    const Operator& op = local.block.operators[i];
    if (op.parameters.empty()) continue;
    const ParameterId weight = op.parameters.front();
    if (!is_quantisable(*context.problem.network, local.block, op, weight)) continue;
    const double elements = local.sizes.parameter(i, weight);
    largest = std::max(largest, elements);
    if (!expansion.kept_for_backward) continue;
    (repeated[i] > 0.0 ? memory.working_set : memory.saved) += element_size(product) * elements;
  }
  memory.working_set += expansion.peak * largest;
}

}  // namespace plansearch
