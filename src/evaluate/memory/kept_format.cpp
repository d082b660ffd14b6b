// SPDX-License-Identifier: Apache-2.0
#include "evaluate/memory/kept_format.hpp"

#include <algorithm>

#include "plan/stages/layer_distribution.hpp"
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

}  // namespace plansearch
