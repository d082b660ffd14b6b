// SPDX-License-Identifier: Apache-2.0
// One block of a graph file: its tensors, parameters and operators.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "io/document/document.hpp"
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

}  // namespace plansearch::io
