// SPDX-License-Identifier: Apache-2.0
#include "workload/network_edges.hpp"

#include <algorithm>

namespace plansearch {
namespace {

/// Whether the input of the copy at that position comes along an edge.
bool is_edge_end(const Network& network, std::int64_t position, std::size_t input) {
  return std::any_of(network.edges.begin(), network.edges.end(), [&](const Edge& edge) {
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
    auto known = std::find_if(tensors.begin(), tensors.end(), [&](const SharedTensor& tensor) {
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
    std::sort(tensor.readers.begin(), tensor.readers.end(),
              [](const TensorReaders& a, const TensorReaders& b) {
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
