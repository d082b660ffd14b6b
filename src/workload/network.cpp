// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "plansearch/error.hpp"
#include "plansearch/network.hpp"
#include "workload/network_edges.hpp"
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
  const bool detached = !op.outputs.empty() && std::ranges::none_of(op.outputs, [&](TensorId id) {
    return block.tensor(id).gradient;
  });
  return !detached && std::ranges::any_of(op.inputs, [&](TensorId id) {
    const Tensor& tensor = block.tensor(id);
    return tensor.gradient && differentiable(tensor);
  });
}

bool trains_weight(const Block& block, const Operator& op) {
  return !op.parameters.empty() &&
         block.parameter(op.parameters.front()).trainable == Trainable::Yes;
}

bool multiplies_wide(const Network& network, const Block& block, const Operator& op) {
  const auto has = [&](const Operator& one, DimRole role) {
    return std::ranges::any_of(one.loop,
                               [&](DimId dim) { return network.dimension(dim).role == role; });
  };
  if (has(op, DimRole::Vocab) || has(op, DimRole::ExpertChoice)) return true;
  const auto frozen = [&](const Operator& other) {
    return traits(other).multiplies_weight() && !trains_weight(block, other) &&
           !has(other, DimRole::ExpertChoice);
  };
  return has(op, DimRole::Latent) && trains_weight(block, op) &&
         std::ranges::any_of(block.operators, frozen);
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

namespace {

/// Whether the input of the copy at that position comes along an edge.
bool is_edge_end(const Network& network, std::int64_t position, std::size_t input) {
  return std::ranges::any_of(network.edges, [&](const Edge& edge) {
    return edge.input == input && edge.to <= position && position < edge.to + edge.readers;
  });
}

/// Input i is output i of the copy in front.
bool reads_on(const Network& network, std::int64_t position, const Block& block,
              std::size_t output) {
  return output < block.inputs.size() && !is_edge_end(network, position, output);
}

}  // namespace

std::int64_t SharedTensor::last_reader() const {
  std::int64_t last = from;
  for (const TensorReaders& reader : readers)
    last = std::max(last, reader.first + reader.copies - 1);
  return last;
}

std::vector<std::size_t> block_of_copies(const Network& network) {
  std::vector<std::size_t> blocks;
  for (const BlockRun& run : network.order) {
    blocks.insert(blocks.end(), static_cast<std::size_t>(run.count), run.block);
  }
  return blocks;
}

std::vector<SharedTensor> shared_tensors(const Network& network) {
  std::vector<SharedTensor> tensors;
  if (network.edges.empty()) return tensors;
  const std::vector<std::size_t> blocks = block_of_copies(network);
  for (const Edge& edge : network.edges) {
    auto known = std::ranges::find_if(tensors, [&](const SharedTensor& tensor) {
      return tensor.from == edge.from && tensor.output == edge.output;
    });
    if (known == tensors.end()) {
      tensors.push_back({edge.from, edge.output, {}});
      known = std::prev(tensors.end());
      const auto next = static_cast<std::size_t>(edge.from + 1);
      if (next < blocks.size() &&
          reads_on(network, edge.from + 1, network.blocks[blocks[next]], edge.output)) {
        known->handed_on = true;
        known->readers.push_back({edge.from + 1, 1, edge.output});
      }
    }
    known->readers.push_back({edge.to, edge.readers, edge.input});
  }
  for (SharedTensor& tensor : tensors) {
    std::ranges::sort(tensor.readers, [](const TensorReaders& a, const TensorReaders& b) {
      return std::pair(a.first, a.input) < std::pair(b.first, b.input);
    });
  }
  return tensors;
}

std::vector<std::vector<bool>> handed_on(const Network& network) {
  std::vector<std::vector<bool>> handed;
  for (const Block& block : network.blocks) handed.emplace_back(block.outputs.size(), false);
  std::int64_t position = 0;
  const auto look = [&](std::size_t from, std::int64_t next, std::size_t to) {
    for (std::size_t i = 0; i < handed[from].size(); ++i) {
      if (!handed[from][i]) handed[from][i] = reads_on(network, next, network.blocks[to], i);
    }
  };
  for (std::size_t r = 0; r < network.order.size(); ++r) {
    const BlockRun& run = network.order[r];
    for (std::int64_t i = 1; i < run.count; ++i) look(run.block, position + i, run.block);
    position += run.count;
    if (r + 1 < network.order.size()) look(run.block, position, network.order[r + 1].block);
  }
  return handed;
}

}  // namespace plansearch
