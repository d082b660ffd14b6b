// SPDX-License-Identifier: Apache-2.0
// One block of a graph file: its tensors, parameters and operators.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "io/document/document.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/network.hpp"

namespace plansearch::io {

/// A block, and by which names its inputs and outputs are joined to those of others.
struct GraphBlock {
  Block block;
  std::vector<std::string> inputs;   ///< by place in Block::inputs
  std::vector<std::string> outputs;  ///< by place in Block::outputs
  std::set<std::string> outside;     ///< inputs that come from outside the network
  SourceLocation where;
};

/// Dimensions by name.
using DimNames = std::map<std::string, DimId, std::less<>>;

/// Reports every wrong value; where one is missing that others need, the reading ends.
[[nodiscard]] GraphBlock read_block(const Network& network, const DimNames& dims,
                                    const std::string& name, const Node& node);

// Joins of the blocks of a graph file: their order, and edges in addition to the chain.

/// Blocks of which the order has no copies; edges that name them are left out too.
[[nodiscard]] std::set<std::string> blocks_left_out(const Node& order);

/// Fills in `order` and `edges`. Neighbours join by name; a tensor without a producer or a reader,
/// or with unequal dimensions at both ends, is an error.
void join_blocks(const Node& root, const std::vector<GraphBlock>& blocks, Network& network);

/// A description whose `graph` is the network of the file. Throws InputError for anything wrong.
[[nodiscard]] ModelDescription read_graph(const Node& root);

// Fields of an operator of a graph file other than its tensors, and the numbering of tensors.

/// Implementation, FLOPs, launches: what is left out is usual for the kind.
void read_operator_fields(const Node& node, Operator& op);

/// The places of known names in the order of a list that names each once.
[[nodiscard]] std::vector<std::size_t> block_order(const Node& list,
                                                   const std::vector<std::string>& names);
/// Moves tensor order[i] to place i.
void renumber(Block& block, const std::vector<std::size_t>& order);
void renumber_parameters(Block& block, const std::vector<std::size_t>& order);

}  // namespace plansearch::io
