// SPDX-License-Identifier: Apache-2.0
// What the edges of a network are to the groups of a plan.
#pragma once

#include <vector>

#include "plansearch/plan.hpp"
#include "workload/network_edges.hpp"

namespace plansearch {

/// Of a group whose first copy of a block has that position. `tensors`: shared_tensors(network).
[[nodiscard]] GroupEdges group_edges(const Network& network,
                                     const std::vector<SharedTensor>& tensors,
                                     const std::vector<BlockRun>& blocks, std::int64_t first,
                                     SkipRoute skips);

/// Messages along edges between groups of one replica, the first of which begins at position
/// `first`; sorted by receiver. What a group hands to the next along the chain is not among them.
[[nodiscard]] std::vector<DirectMessage> direct_messages(const Network& network,
                                                         const std::vector<SharedTensor>& tensors,
                                                         const std::vector<OperatorGroup>& groups,
                                                         std::size_t replica, std::int64_t first);

/// Copies of blocks in these runs.
[[nodiscard]] std::int64_t copies_of(const std::vector<BlockRun>& blocks);

}  // namespace plansearch
