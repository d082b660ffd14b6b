// SPDX-License-Identifier: Apache-2.0
// Consecutive operators joined to layers, before layers go to stages.
#pragma once

#include <optional>
#include <vector>

namespace plansearch {

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
