// SPDX-License-Identifier: Apache-2.0
// The pieces planners put together: layers, sub-meshes, and the ways to split a stage over one.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "evaluate/step/stage_price.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/search.hpp"

namespace plansearch {

/// What is left out where plans are sequences of stages.
inline constexpr std::string_view kOrdersLeftOut =
    "orders that split the backward pass or hold several chunks of a stage";

/// Sizes of sub-meshes, ascending: powers of two of devices that divide a node, the node, powers of
/// two of nodes, and all devices. Stages of such sizes, the largest first, leave no gap and never
/// straddle a node they fit into (Alpa, appendix A).
[[nodiscard]] std::vector<int> submesh_sizes(int devices_per_node, int devices);

/// What one layer brings with it: embeddings go with the layer behind them, heads with the last.
[[nodiscard]] std::vector<std::vector<BlockRun>> layer_runs(const Network& network);

/// When micro-batches run, and how many.
struct PipelineOrder {
  ScheduleId schedule = kDefaultSchedule;
  int micro_batches = 1;
  auto operator<=>(const PipelineOrder&) const = default;
};

/// Every way to run a stage on a sub-mesh of one of the sizes that network and framework allow, by
/// order of the pipeline. Orders that split the backward pass or hold several chunks are left out.
[[nodiscard]] std::map<PipelineOrder, std::vector<PlanDegrees>> stage_degrees(
    const Problem& problem, const SearchRequest& request, const std::vector<int>& sizes);

}  // namespace plansearch
