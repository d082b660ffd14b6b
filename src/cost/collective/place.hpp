// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a process group lie on the machine.
#pragma once

#include <cstddef>

#include "plansearch/cluster.hpp"
#include "plansearch/device_mesh.hpp"

namespace plansearch {

/// A group on domains of fast links: nodes, or the racks that one switch joins.
struct GroupSpan {
  double ranks = 1.0;
  double local = 1.0;    ///< in one domain; the average where the domains hold unequal numbers
  double nodes = 1.0;    ///< domains
  int stride = 1;        ///< between neighbours of the group
  double sisters = 1.0;  ///< groups that share the network cards of a domain, this one included
  std::size_t local_tier = 0;  ///< innermost tier that joins the ranks of one domain
  std::size_t wide_tier = 0;   ///< innermost tier that joins all ranks
  bool operator==(const GroupSpan&) const = default;
};

/// The span of the sister group that crosses most domains.
[[nodiscard]] GroupSpan locate(const Cluster& cluster, const ProcessGroup& group);

/// Whether every message takes as long over one group as over the other.
[[nodiscard]] bool cost_alike(const Cluster& cluster, const ProcessGroup& one,
                              const ProcessGroup& other);

}  // namespace plansearch
