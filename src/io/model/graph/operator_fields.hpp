// SPDX-License-Identifier: Apache-2.0
// Fields of an operator of a graph file other than its tensors, and the numbering of tensors.
#pragma once

#include <string>
#include <vector>

#include "io/document/document.hpp"
#include "plansearch/network.hpp"

namespace plansearch::io {

/// Implementation, FLOPs, launches: what is left out is usual for the kind.
void read_operator_fields(const Node& node, Operator& op);

/// The places of known names in the order of a list that names each once.
[[nodiscard]] std::vector<std::size_t> block_order(const Node& list,
                                                   const std::vector<std::string>& names);
/// Moves tensor order[i] to place i.
void renumber(Block& block, const std::vector<std::size_t>& order);
void renumber_parameters(Block& block, const std::vector<std::size_t>& order);

}  // namespace plansearch::io
