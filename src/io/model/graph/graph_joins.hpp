// SPDX-License-Identifier: Apache-2.0
// Joins of the blocks of a graph file: their order, and edges in addition to the chain.
#pragma once

#include <string>
#include <vector>

#include "io/document/document.hpp"
#include "io/model/graph/block_reader.hpp"

namespace plansearch::io {

/// Fills in `order` and `edges`. Neighbours join by name; a tensor without a producer or a reader,
/// or with unequal dimensions at both ends, is an error.
void join_blocks(const Node& root, const std::vector<GraphBlock>& blocks, Network& network);

}  // namespace plansearch::io
