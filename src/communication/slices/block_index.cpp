// SPDX-License-Identifier: Apache-2.0
// Computes: what derivation looks up of a block many times: positions of dimensions, producers,
//           users.
// Source: the operator graph of the block (plansearch/network.hpp).
// Assumes: a loop nest has at most as many dimensions as a mask has bits.
// Units: indices and masks.
// Checked by: tests/unit/communication/derivation_test.cpp
#include "communication/slices/block_index.hpp"

#include <algorithm>

#include "communication/derive/placement.hpp"
#include "plansearch/error.hpp"
#include "workload/network_edges.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

/// A loop nest has at most as many dimensions as a mask has bits.
constexpr std::size_t kMaxLoop = 32;

std::int8_t position_of(const std::vector<DimId>& loop, DimId dim) {
  const auto found = std::ranges::find(loop, dim);
  return found == loop.end() ? std::int8_t{-1} : static_cast<std::int8_t>(found - loop.begin());
}

PositionMask bit(std::size_t position) {
  return PositionMask{1} << position;
}

TensorUse use_tensor(const Network& network, const Block& block, std::size_t op, TensorId id) {
  TensorUse use;
  use.tensor = id;
  const std::vector<DimId>& dims = block.tensor(id).dims;
  const auto positions = loop_positions(network, block, op, id);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    use.positions.push_back(static_cast<std::int8_t>(positions[i]));
    if (positions[i] >= 0) use.carried |= bit(static_cast<std::size_t>(positions[i]));
    const bool grouped = network.dimension(dims[i]).role == DimRole::KvHead &&
                         position_of(block.operators[op].loop, dims[i]) < 0;
    if (grouped) use.grouped |= bit(i);
  }
  return use;
}

ParameterUse use_parameter(const Block& block, const Operator& op, ParameterId id) {
  ParameterUse use;
  use.parameter = id;
  for (const DimId dim : block.parameter(id).dims) {
    const std::int8_t position = position_of(op.loop, dim);
    PLANSEARCH_CHECK(position >= 0);
    use.positions.push_back(position);
    use.carried |= bit(static_cast<std::size_t>(position));
  }
  return use;
}

bool touches(const OperatorIndex& index, TensorId id) {
  return std::ranges::any_of(index.uses, [&](const TensorUse& use) { return use.tensor == id; });
}

OperatorIndex index_operator(const Network& network, const Block& block, std::size_t i) {
  const Operator& op = block.operators[i];
  PLANSEARCH_CHECK(op.loop.size() < kMaxLoop);
  OperatorIndex index;
  index.all = bit(op.loop.size()) - 1U;
  index.exchanges = traits(op).exchanges_tokens;
  for (const DimId dim : op.loop) {
    const DimRole role = network.dimension(dim).role;
    index.attends = index.attends || role == DimRole::KeySequence;
    index.routed = index.routed || role == DimRole::Routed;
    index.expert_order = index.expert_order || role == DimRole::Expert || role == DimRole::Routed;
  }
  index.trains_weight = trains_weight(block, op);
  index.from_parameters = true;
  for (const TensorId id : op.inputs) {
    index.uses.push_back(use_tensor(network, block, i, id));
    index.from_parameters = index.from_parameters && !differentiable(block.tensor(id));
  }
  for (const TensorId id : op.outputs) index.uses.push_back(use_tensor(network, block, i, id));
  for (const Saved& saved : op.saved) {
    if (touches(index, saved.tensor)) continue;
    index.uses.push_back(use_tensor(network, block, i, saved.tensor));
  }
  for (const ParameterId id : op.parameters) {
    index.parameters.push_back(use_parameter(block, op, id));
    index.trains = index.trains || block.parameter(id).trainable == Trainable::Yes;
  }
  return index;
}

/// Where the cuts of every loop nest, of every use and of the edges stand.
void number_cuts(const Block& block, BlockIndex& index) {
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < block.operators.size(); ++i) {
    OperatorIndex& op = index.operators[i];
    op.first_cut = next;
    next += static_cast<std::uint32_t>(block.operators[i].loop.size());
    for (TensorUse& use : op.uses) {
      use.first_cut = next;
      next += static_cast<std::uint32_t>(use.positions.size());
    }
  }
  index.edge_cut.assign(block.tensors.size(), 0);
  for (std::size_t t = 0; t < block.tensors.size(); ++t) {
    if (index.producers[t] != kEdge && !index.leaves[t]) continue;
    index.edge_cut[t] = next;
    next += static_cast<std::uint32_t>(block.tensors[t].dims.size());
  }
  index.cuts = next;
}

}  // namespace

const TensorUse& OperatorIndex::use(TensorId tensor) const {
  for (const TensorUse& use : uses) {
    if (use.tensor == tensor) return use;
  }
  throw InternalError("an operator is asked for a tensor it does not touch");
}

const ParameterUse& OperatorIndex::use(ParameterId parameter) const {
  for (const ParameterUse& use : parameters) {
    if (use.parameter == parameter) return use;
  }
  throw InternalError("an operator is asked for a parameter it does not have");
}

BlockIndex index_block(const Network& network, const Block& block) {
  BlockIndex index;
  index.producers.assign(block.tensors.size(), kEdge);
  index.consumers.resize(block.tensors.size());
  index.leaves.assign(block.tensors.size(), false);
  for (std::size_t i = 0; i < block.operators.size(); ++i) {
    const Operator& op = block.operators[i];
    index.operators.push_back(index_operator(network, block, i));
    for (const TensorId id : op.outputs) index.producers[static_cast<std::size_t>(id)] = i;
    for (const TensorId id : op.inputs) {
      auto& list = index.consumers[static_cast<std::size_t>(id)];
      if (list.empty() || list.back() != i) list.push_back(i);
    }
  }
  for (const TensorId id : block.outputs) index.leaves[static_cast<std::size_t>(id)] = true;
  number_cuts(block, index);
  return index;
}

NetworkIndex index_network(const Network& network) {
  NetworkIndex index;
  std::vector<std::vector<bool>> handed = handed_on(network);
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    index.push_back(index_block(network, network.blocks[b]));
    index.back().handed_on = std::move(handed[b]);
  }
  return index;
}

}  // namespace plansearch
