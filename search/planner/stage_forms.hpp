// SPDX-License-Identifier: Apache-2.0
// The pieces planners put together: layers, sub-meshes, and the ways to split a stage over one.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "evaluate/stage_price.hpp"
#include "plansearch/degree_limits.hpp"
#include "plansearch/degree_set.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

/// What a user may decide about uneven plans: degrees are those of every stage.
struct StageRequest {
  PinnedDegrees pinned;
  DegreeLimits limits;
  std::optional<int> micro_batches{};  ///< per step; absent: any number
  /// Of a search whose plans stand beside others: slower ones are of no interest.
  std::optional<Seconds> slowest{};

  /// Whether nothing that was asked for stands against this value.
  [[nodiscard]] bool admits(Degree degree, int value) const {
    return pinned.get(degree).value_or(value) == value && limits.admits(degree, value);
  }
  /// Whether nothing was asked for at all.
  [[nodiscard]] bool is_open(Degree degree) const {
    return !pinned.has(degree) && !limits.has(degree);
  }
};

/// Sizes of sub-meshes, ascending: powers of two of devices that divide a node, the node, powers of
/// two of nodes, and all devices. Stages of such sizes, the largest first, leave no gap and never
/// straddle a node they fit into (Alpa, appendix A).
[[nodiscard]] std::vector<int> submesh_sizes(int devices_per_node, int devices);

/// What one layer brings with it: embeddings go with the layer behind them, heads with the last.
[[nodiscard]] std::vector<std::vector<BlockRun>> layer_pieces(const Network& network);

/// When micro-batches run, and how many.
struct PipelineOrder {
  ScheduleId schedule = kDefaultSchedule;
  int micro_batches = 1;
  auto operator<=>(const PipelineOrder&) const = default;
};

/// Every way to run a stage on a sub-mesh of one of the sizes that network and framework allow, by
/// order of the pipeline. Orders that split the backward pass or hold several chunks are left out.
[[nodiscard]] std::map<PipelineOrder, std::vector<PlanDegrees>> stage_degrees(
    const Problem& problem, const StageRequest& request, const std::vector<int>& sizes);

}  // namespace plansearch
