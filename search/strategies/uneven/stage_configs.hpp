// SPDX-License-Identifier: Apache-2.0
// The pieces planners put together: layers, sub-meshes, and the configurations of a stage over one.
#pragma once

#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include "evaluate/step/stage_price.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/search.hpp"

namespace plansearch {

/// Orders that are left out where plans are sequences of stages.
inline constexpr std::string_view kOrdersLeftOut =
    "orders that split the backward pass or hold several chunks of a stage";

/// Sizes of sub-meshes, ascending: powers of two of devices that divide a node, the node, powers of
/// two of nodes, and all devices. Stages of such sizes, the largest first, leave no gap and never
/// straddle a node they fit into (Alpa, appendix A).
[[nodiscard]] std::vector<int> submesh_sizes(int devices_per_node, int devices);

/// Blocks by layer: embeddings go with the layer behind them, heads with the last.
[[nodiscard]] std::vector<std::vector<BlockRun>> layer_runs(const Network& network);

/// Schedule and number of micro-batches of a pipeline.
struct PipelineOrder {
  ScheduleId schedule = kDefaultSchedule;
  int micro_batches = 1;
  auto operator<=>(const PipelineOrder&) const = default;
};

/// Every configuration of a stage on a sub-mesh of one of the sizes that network and framework allow, by
/// order of the pipeline. Orders that split the backward pass or hold several chunks are left out.
[[nodiscard]] std::map<PipelineOrder, std::vector<PlanDegrees>> stage_degrees(
    const Problem& problem, const SearchRequest& request, const std::vector<int>& sizes);

/// The runs of blocks that consecutive layers hold: layers that repeat make many ranges alike.
class LayerRanges {
 public:
  /// `pieces`: all layers of the network (layer_runs), or groups of them.
  LayerRanges(const std::vector<std::vector<BlockRun>>& pieces, const Network& network,
              SkipRoute skips);

  [[nodiscard]] int layers() const { return layers_; }
  /// The number of different ranges.
  [[nodiscard]] int size() const { return static_cast<int>(runs_.size()); }
  /// The number of the range of layers first .. last: 0 .. size() - 1, equal for equal runs to
  /// which edges are the same.
  [[nodiscard]] int number(int first, int last) const {
    return numbers_[static_cast<std::size_t>(first) * static_cast<std::size_t>(layers_) +
                    static_cast<std::size_t>(last)];
  }
  [[nodiscard]] const PlacedRuns& runs(int number) const {
    return runs_[static_cast<std::size_t>(number)];
  }

 private:
  int layers_ = 0;
  std::vector<int> numbers_;  ///< by first and last layer
  std::vector<PlacedRuns> runs_;
};

}  // namespace plansearch
