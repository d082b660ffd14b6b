// SPDX-License-Identifier: Apache-2.0
// Computes: one rank's message to another: latency + message / rate of the links between the two.
// Source: NCCL's send and receive: channels per peer, flagged words for small messages.
// Assumes: a mesh gives a pair its own links; between domains a pair has the cards of one rank.
// Units: seconds, bytes.
// Checked by: tests/unit/cost/collective_cost_test.cpp, in_step_collective_test.cpp
#include <algorithm>

#include "cost/collective/algorithm.hpp"

namespace plansearch {
namespace {

bool carries(const CollectiveCall& call) {
  return is_pairwise(call.kind);
}

void domain_times(const CollectiveCall& call, ProtocolTimes& times) {
  const LocalLinkCurve& c = call.link.curve;
  times.push_back(
      c.base + c.step +
      std::min(call.size / call.link.low_latency, c.pairwise_base + call.size / call.link.simple));
}

void fabric_times(const CollectiveCall& call, ProtocolTimes& times) {
  const FabricCurve& c = call.fabric->curve;
  times.push_back(c.send + call.size / (call.fabric->card * c.send_efficiency));
}

}  // namespace

const CollectiveAlgorithm kSend{"send", Reach::Domain, carries, domain_times};
const CollectiveAlgorithm kFabricSend{"send over domains", Reach::Fabric, carries, fabric_times};

}  // namespace plansearch
