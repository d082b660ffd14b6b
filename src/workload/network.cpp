// SPDX-License-Identifier: Apache-2.0
#include "plansearch/network.hpp"

#include <algorithm>
#include <set>

#include "plansearch/error.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

std::int64_t exact_count(const Network& network, const std::vector<DimId>& dims) {
  std::int64_t count = 1;
  for (const DimId id : dims) count *= network.dimension(id).extent;
  return count;
}

}  // namespace

double element_count(const Network& network, const std::vector<DimId>& dims) {
  double count = 1.0;
  for (const DimId id : dims) count *= static_cast<double>(network.dimension(id).extent);
  return count;
}

std::int64_t parameter_count(const Network& network) {
  std::int64_t total = 0;
  std::set<std::string> seen;
  for (const BlockRun& run : network.order) {
    PLANSEARCH_CHECK(run.block < network.blocks.size());
    for (const Parameter& parameter : network.blocks[run.block].parameters) {
      const std::int64_t size = exact_count(network, parameter.dims);
      if (parameter.shared_key.empty()) {
        total += size * run.count;
      } else if (seen.insert(parameter.shared_key).second) {
        total += size;
      }
    }
  }
  return total;
}

double block_parameter_count(const Network& network, const Block& block) {
  double total = 0.0;
  for (const Parameter& parameter : block.parameters) {
    total += element_count(network, parameter.dims);
  }
  return total;
}

Flops operator_forward_flops(const Network& network, const Operator& op) {
  return Flops(op.flops_per_point * element_count(network, op.loop));
}

Flops useful_forward_flops(const Network& network, const Operator& op) {
  if (!traits(op).model_flops) return Flops(0);
  return operator_forward_flops(network, op) * op.useful_fraction;
}

Flops model_forward_flops(const Network& network) {
  Flops total;
  for (const BlockRun& run : network.order) {
    for (const Operator& op : network.blocks[run.block].operators) {
      total += useful_forward_flops(network, op) * static_cast<double>(run.count);
    }
  }
  return total;
}

bool differentiable(const Tensor& tensor) {
  return tensor.element == ElementClass::Activation || tensor.element == ElementClass::Logit;
}

bool needs_input_gradient(const Block& block, const Operator& op) {
  return std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId id) {
    const Tensor& tensor = block.tensor(id);
    return tensor.gradient && differentiable(tensor);
  });
}

bool trains_weight(const Block& block, const Operator& op) {
  return !op.parameters.empty() &&
         block.parameter(op.parameters.front()).trainable == Trainable::Yes;
}

Flops model_training_flops(const Network& network) {
  Flops total;
  for (const BlockRun& run : network.order) {
    const Block& block = network.blocks[run.block];
    for (const Operator& op : block.operators) {
      // Both operands of a product of activations are inputs.
      const bool input = needs_input_gradient(block, op);
      const bool weight = traits(op).multiplies_weight() ? trains_weight(block, op) : input;
      const double passes = 1.0 + (input ? 1.0 : 0.0) + (weight ? 1.0 : 0.0);
      total += useful_forward_flops(network, op) * (passes * static_cast<double>(run.count));
    }
  }
  const auto earlier = static_cast<double>(network.forwards - 1);
  return earlier == 0.0 ? total : total + model_forward_flops(network) * earlier;
}

std::optional<std::size_t> returning_block(const Network& network) {
  for (auto run = network.order.rbegin(); run != network.order.rend(); ++run) {
    if (!network.blocks[run->block].outputs.empty()) return run->block;
  }
  return std::nullopt;
}

LayerModules modules_of(const Network& network) {
  LayerModules modules;
  for (const Block& block : network.blocks) {
    for (const Operator& op : block.operators) modules |= op.modules;
  }
  return modules;
}

std::int64_t copy_count(const Network& network) {
  std::int64_t copies = 0;
  for (const BlockRun& run : network.order) copies += run.count;
  return copies;
}

std::int64_t layer_count(const Network& network) {
  std::int64_t layers = 0;
  for (const BlockRun& run : network.order) {
    const BlockKind kind = network.blocks[run.block].kind;
    const bool layer = kind == BlockKind::Encoder || kind == BlockKind::Decoder ||
                       kind == BlockKind::CrossDecoder || kind == BlockKind::Layer;
    if (layer) layers += run.count;
  }
  return layers;
}

}  // namespace plansearch
