// SPDX-License-Identifier: Apache-2.0
// Where a plan brings tensors from the layout in which they are made to one in which they are read.
#pragma once

#include <string>
#include <vector>

#include "plansearch/communication_kind.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// One message of a path.
struct RedistributionHop {
  CommunicationKind kind = CommunicationKind::SendReceive;
  std::string axes;    ///< of the mesh, "out"; "pipeline" between stages
  int ranks = 2;       ///< of the group
  std::string links;   ///< the machine's names, fastest first: "nvlink, infiniband"
  Bytes bytes;         ///< full message, nccl-tests convention; between stages: of the busiest rank
  Seconds time;        ///< one call, before anything hides it
  double count = 0.0;  ///< calls of a device in one step, those of recomputation included
};

/// One tensor, from an operator to another or from a stage to another.
struct Redistribution {
  std::string what;  ///< the tensor; "chain" or "edge" between stages
  std::string from;  ///< "layer: attn.core", "stage 0"
  std::string to;
  std::string pass;                     ///< "forward", "input gradient", "weight gradient"
  int alike = 1;                        ///< borders of stages with the same path
  std::vector<RedistributionHop> path;  ///< in this order
  [[nodiscard]] Seconds time() const {  ///< of the whole path, once
    Seconds sum;
    for (const RedistributionHop& hop : path) sum += hop.time;
    return sum;
  }
  /// Time of one device in one step.
  [[nodiscard]] Seconds in_step() const {
    Seconds sum;
    for (const RedistributionHop& hop : path) sum += hop.count * hop.time;
    return sum;
  }
};

}  // namespace plansearch
