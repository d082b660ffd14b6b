// SPDX-License-Identifier: Apache-2.0
// Computes: which tensors of edges a group holds once, hands on, or sends straight to their
//           readers.
// Source: the definition: a tensor is one buffer on a device and one message to a group that reads
//         it.
// Assumes: groups hold consecutive copies of blocks, in the order of the network.
// Units: positions and copies of blocks.
// Checked by: tests/unit/plan/group_edges_test.cpp
#include "plan/stages/expand.hpp"

#include <algorithm>

namespace plansearch {
namespace {

/// Positions [begin, end) of a group.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] bool holds(std::int64_t position) const {
    return begin <= position && position < end;
  }
};

std::size_t block_at(const Network& network, std::int64_t position) {
  for (const BlockRun& run : network.order) {
    if (position < run.count) return run.block;
    position -= run.count;
  }
  return network.blocks.size();
}

BlockPort producer_of(const Network& network, const SharedTensor& tensor) {
  const std::size_t block = block_at(network, tensor.from);
  return {block, network.blocks[block].inputs.size() + tensor.output};
}

bool is_read_in(const SharedTensor& tensor, const Span& span) {
  return std::ranges::any_of(tensor.readers, [&](const TensorReaders& r) {
    return r.first < span.end && r.first + r.copies > span.begin;
  });
}

/// Calls visit(block, first of the group's copies of it, copies) for the runs in some positions.
template <typename Visit>
void for_each_run_in(const std::vector<BlockRun>& blocks, std::int64_t first, const Span& wanted,
                     Visit visit) {
  std::int64_t position = first;
  for (std::size_t r = 0; r < blocks.size(); ++r) {
    const BlockRun& run = blocks[r];
    const std::int64_t begin = std::max(position, wanted.begin);
    const std::int64_t end = std::min(position + run.count, wanted.end);
    if (begin < end) {
      std::int64_t before = begin - position;
      for (std::size_t earlier = 0; earlier < r; ++earlier) {
        if (blocks[earlier].block == run.block) before += blocks[earlier].count;
      }
      visit(run.block, before, end - begin);
    }
    position += run.count;
  }
}

std::vector<PortHolders> holders_of(const Network& network, const SharedTensor& tensor,
                                    const std::vector<BlockRun>& blocks, std::int64_t first) {
  std::vector<PortHolders> holders;
  const auto add = [&](std::int64_t from, std::int64_t copies, auto port) {
    for_each_run_in(blocks, first, {from, from + copies},
                    [&](std::size_t block, std::int64_t before, std::int64_t count) {
                      holders.push_back({{block, port(block)}, before, count});
                    });
  };
  add(tensor.from, 1,
      [&](std::size_t block) { return network.blocks[block].inputs.size() + tensor.output; });
  for (const TensorReaders& reader : tensor.readers) {
    add(reader.first, reader.copies, [&](std::size_t) { return reader.input; });
  }
  return holders;
}

std::int64_t count(const std::vector<PortHolders>& holders) {
  std::int64_t copies = 0;
  for (const PortHolders& holder : holders) copies += holder.copies;
  return copies;
}

}  // namespace

std::int64_t copies_of(const std::vector<BlockRun>& blocks) {
  std::int64_t copies = 0;
  for (const BlockRun& run : blocks) copies += run.count;
  return copies;
}

GroupEdges group_edges(const Network& network, const std::vector<SharedTensor>& tensors,
                       const std::vector<BlockRun>& blocks, std::int64_t first, SkipRoute skips) {
  GroupEdges edges;
  const Span own{first, first + copies_of(blocks)};
  for (const SharedTensor& tensor : tensors) {
    std::vector<PortHolders> holders = holders_of(network, tensor, blocks, first);
    if (count(holders) > 1) edges.shared.push_back(std::move(holders));
    const bool goes_on = tensor.from < own.end && tensor.last_reader() >= own.end;
    if (skips != SkipRoute::Relayed || !goes_on) continue;
    const bool along_chain = tensor.handed_on && tensor.from == own.end - 1;
    if (!along_chain) edges.leaving.push_back(producer_of(network, tensor));
    if (!own.holds(tensor.from) && !is_read_in(tensor, own)) {
      edges.passing.push_back(producer_of(network, tensor));
    }
  }
  return edges;
}

std::vector<DirectMessage> direct_messages(const Network& network,
                                           const std::vector<SharedTensor>& tensors,
                                           const std::vector<OperatorGroup>& groups,
                                           std::size_t replica, std::int64_t first) {
  std::vector<DirectMessage> messages;
  if (tensors.empty()) return messages;
  std::vector<Span> spans;
  for (std::size_t k = 0; k < groups.size(); ++k) {
    const std::int64_t begin = k % replica == 0 ? first : spans.back().end;
    spans.push_back({begin, begin + copies_of(groups[k].blocks)});
  }
  for (std::size_t to = 0; to < groups.size(); ++to) {
    for (std::size_t from = to - to % replica; from < to; ++from) {
      for (const SharedTensor& tensor : tensors) {
        if (!spans[from].holds(tensor.from) || !is_read_in(tensor, spans[to])) continue;
        const bool along_chain =
            tensor.handed_on && to == from + 1 && tensor.from == spans[from].end - 1;
        if (!along_chain) messages.push_back({from, to, producer_of(network, tensor)});
      }
    }
  }
  return messages;
}

}  // namespace plansearch
