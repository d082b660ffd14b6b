// SPDX-License-Identifier: Apache-2.0
// Accelerators, links and fabrics with the constants frozen in tests/data/kernel_constants.csv.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/cluster.hpp"
#include "plansearch/communication.hpp"

namespace plansearch::test {

/// One line of tests/data/kernel_times.csv, its inputs split at ';'.
struct FrozenTime {
  std::vector<std::string> inputs;
  double time_us = 0.0;
};

class FrozenHardware {
 public:
  FrozenHardware();

  [[nodiscard]] std::vector<FrozenTime> times(const std::string& what) const;
  [[nodiscard]] Accelerator accelerator(const std::string& name) const;
  [[nodiscard]] AttentionCurve attention(const std::string& owner, const std::string& kernel) const;
  /// One tier of `size` accelerators.
  [[nodiscard]] LinkTier link(const std::string& name, int size) const;
  /// `node_bandwidth` of all cards of a node of `node` accelerators; `size` accelerators in all.
  [[nodiscard]] LinkTier fabric(const std::string& name, double node_bandwidth, int node,
                                int size) const;
  /// A node of one link.
  [[nodiscard]] Cluster one_node(const std::string& link_name, int size) const;
  /// Nodes of `node` accelerators joined by a fabric.
  [[nodiscard]] Cluster several_nodes(const std::string& link_name, const std::string& fabric_name,
                                      double node_bandwidth, int node, int size) const;

 private:
  [[nodiscard]] std::optional<double> find(const std::string& owner,
                                           const std::string& field) const;
  [[nodiscard]] double value(const std::string& owner, const std::string& field) const;
  [[nodiscard]] std::optional<MatmulCurve> matmul(const std::string& owner,
                                                  const std::string& type) const;

  std::map<std::pair<std::string, std::string>, double> constants_;
  std::map<std::string, std::vector<FrozenTime>> times_;
};

/// "all_reduce", "all_gather", "reduce_scatter", "alltoall".
[[nodiscard]] CommunicationKind kind_of(const std::string& name);

}  // namespace plansearch::test
