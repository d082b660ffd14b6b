// SPDX-License-Identifier: Apache-2.0
// Computes: memory of quantised weights that products read in another format.
// Source: cost/kernels/weight_expansion.hpp: what autograd keeps is there from the last
//         forward pass of a layer to its backward.
// Assumes: products run one after the other, so that one weight at a time is being expanded.
// Units: bytes, elements.
// Checked by: tests/unit/evaluate/block_memory_test.cpp; Qwen's published QLoRA peaks
//             (docs/lora.md)
#include "evaluate/memory/expanded_weights.hpp"

#include <algorithm>

#include "communication/derive/tensor_policy.hpp"
#include "cost/kernels/weight_expansion.hpp"

namespace plansearch {

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
