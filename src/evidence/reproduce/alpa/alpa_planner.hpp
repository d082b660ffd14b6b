// SPDX-License-Identifier: Apache-2.0
// The plan that Alpa's own planner would take: its operator clusters, its objective, the costs it profiles, and its
// inter-operator program (consecutive layers of a stage and its sub-mesh) as a pure function of a table of costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "plansearch/evaluator.hpp"
#include "search/strategies/uneven/stage_configs.hpp"

namespace plansearch {

struct AlpaPlan {
  ParallelPlan plan;
  Seconds estimate;  ///< sum t_i + (B - 1) max t_j of the stages' forward and backward
};

/// Layers in at most `groups` clusters of the network's blocks; every number of micro-batches is
/// tried, the one of least objective taken. Left out of the costs, as Alpa leaves them out:
/// messages between stages, gradient synchronisation, optimizer, host. Nothing where no plan fits.
[[nodiscard]] std::optional<AlpaPlan> alpa_plan(const PlanEvaluator& evaluator,
                                                const SearchRequest& request, int groups);

/// Layers joined by operator clustering, at most `groups` of them: FLOPs even, at most 1.5 times
/// the mean.
[[nodiscard]] std::vector<std::vector<BlockRun>> clustered_pieces(const Network& network,
                                                                  int groups);

/// A tensor that operators pass on; operators are numbered in their order.
struct PassedTensor {
  int producer = 0;
  std::vector<int> readers;
  double bytes = 0.0;
};

struct OperatorChain {
  std::vector<double> flops;  ///< by operator
  std::vector<PassedTensor> tensors;
};

struct OperatorClusters {
  std::vector<int> first;      ///< operator of every cluster
  double most_received = 0.0;  ///< bytes that the worst cluster reads from those before it
  double received = 0.0;       ///< of all clusters
};

/// Exactly `clusters` clusters, none with more than (1 + imbalance) times the mean FLOPs, of least
/// received bytes in the worst cluster; among those (1e-4 of it apart) of least bytes in all, then
/// of the most even FLOPs. Nothing where the FLOPs cannot be spread like that.
[[nodiscard]] std::optional<OperatorClusters> cluster_operators(const OperatorChain& chain,
                                                                int clusters, double imbalance);

/// Cost of running layers first..last (both counted) as one stage, by sub-mesh and
/// configuration of it.
class StageTable {
 public:
  static constexpr double kImpossible = std::numeric_limits<double>::infinity();
  /// A stage that leaves room for any number of stages behind it.
  static constexpr int kAnySuccessors = std::numeric_limits<int>::max();

  /// `devices`: of every kind of sub-mesh. Nothing is possible until it is set.
  StageTable(int layers, std::vector<int> devices, int configurations);

  [[nodiscard]] int layers() const { return layers_; }
  [[nodiscard]] int configurations() const { return configurations_; }
  [[nodiscard]] const std::vector<int>& devices() const { return devices_; }
  /// Forward and backward of one micro-batch.
  [[nodiscard]] double& cost(int first, int last, int mesh, int configuration) {
    return costs_[index(first, last, mesh, configuration)];
  }
  [[nodiscard]] double cost(int first, int last, int mesh, int configuration) const {
    return costs_[index(first, last, mesh, configuration)];
  }
  /// How many stages may follow: each keeps one more micro-batch in flight here.
  [[nodiscard]] int& successors(int first, int last, int mesh, int configuration) {
    return successors_[index(first, last, mesh, configuration)];
  }
  [[nodiscard]] int successors(int first, int last, int mesh, int configuration) const {
    return successors_[index(first, last, mesh, configuration)];
  }

 private:
  [[nodiscard]] std::size_t index(int first, int last, int mesh, int configuration) const;

  int layers_;
  int configurations_;
  std::vector<int> devices_;
  std::vector<double> costs_;
  std::vector<int> successors_;
};

struct StageChoice {
  int first = 0;
  int last = 0;  ///< counted
  int mesh = 0;
  int configuration = 0;
  double cost = 0.0;
  bool operator==(const StageChoice&) const = default;
};

struct StagePartition {
  double total = 0.0;  ///< sum of the stages + (micro-batches - 1) x the longest
  std::vector<StageChoice> stages;
  std::int64_t limits = 0;  ///< distinct costs, each a limit of the longest stage
  std::int64_t tried = 0;   ///< those for which the program was solved
};

/// The partition of all layers onto exactly `devices` devices of least total, at most `gap` above
/// it; nothing when there is none.
[[nodiscard]] std::optional<StagePartition> best_stages(const StageTable& table, int devices,
                                                        int micro_batches, double gap = 0.0);

}  // namespace plansearch
