// SPDX-License-Identifier: Apache-2.0
// The plan that Alpa's own planner would take: its operator clusters, its objective, the costs it
// profiles.
#pragma once

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

}  // namespace plansearch
