// SPDX-License-Identifier: Apache-2.0
// How many GPUs make sense: the best plan for a ladder of sizes, the batch fixed.
#pragma once

#include <vector>

#include "answer/search_session.hpp"

namespace plansearch {

/// Powers of two of whole nodes and the full machine; powers of two of accelerators where the
/// machine is one node.
[[nodiscard]] std::vector<int> ladder_sizes(const Cluster& cluster);

/// Climbs the ladder, or the sizes asked for. The chosen rung is the largest that keeps most of the
/// throughput per GPU of the smallest that runs: one who pays per GPU-hour stops there. Infeasible
/// when the pinned degrees leave no plan of any size.
[[nodiscard]] std::variant<LadderReport, Infeasible> climb_ladder(const ResolvedQuestion& asked,
                                                                  const ProblemRequest& request,
                                                                  SearchSession& session);

}  // namespace plansearch
