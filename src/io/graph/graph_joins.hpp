// SPDX-License-Identifier: Apache-2.0
// How the blocks of a graph file follow each other: their order, and edges beside the chain.
#pragma once

#include <string>
#include <vector>

#include "io/document.hpp"
#include "io/graph/block_reader.hpp"

namespace plansearch::io {

/// Fills in `order` and `edges`. Neighbours join by name; what nobody makes and nobody reads, and
/// tensors of unequal dimensions at both ends, are errors.
void join_blocks(const Node& root, const std::vector<GraphBlock>& blocks, Network& network);

}  // namespace plansearch::io
