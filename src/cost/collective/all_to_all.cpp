// SPDX-License-Identifier: Apache-2.0
// Computes: an all-to-all: inside a domain latency + (p - 1)/p of the message / rate; over domains
//           latency + a cost per remote peer + the slower of the inner and the outer part.
// Source: NCCL's grouped sends and receives: every pair of ranks has channels of its own.
// Assumes: equal parts for all peers.
// Units: seconds, bytes.
// Checked by: tests/unit/cost/collective_cost_test.cpp, in_step_collective_test.cpp
#include <algorithm>

#include "cost/collective/algorithm.hpp"

namespace plansearch {
namespace {

bool carries(const CollectiveCall& call) {
  return call.kind == CommunicationKind::AllToAll && call.spread == nullptr;
}

void domain_times(const CollectiveCall& call, ProtocolTimes& times) {
  const LocalLinkCurve& c = call.link.curve;
  const double ranks = call.span.ranks;
  const Bytes passed = call.size * wire_share(call.kind, ranks);
  const Bytes copied = c.local_copy * call.size / ranks;
  const Bytes moved = passed + copied * call.link.share;
  const Seconds latency = c.base + c.step * latency_steps(call.kind, ranks);
  times.push_back(latency + (passed + copied) / (call.link.low_latency * (ranks - 1.0)));
  times.push_back(latency + c.pairwise_base + fill_time(c.fill, moved) + moved / call.link.simple);
}

void fabric_times(const CollectiveCall& call, ProtocolTimes& times) {
  const GroupSpan& s = call.span;
  const FabricCurve& c = call.fabric->curve;
  const double remote = s.ranks - s.local;
  const Seconds inside = (s.local - 1.0) / s.ranks * call.size / call.link.simple;
  const Seconds outside = remote / s.ranks * call.size * s.local / call.fabric->line;
  times.push_back(call.link.curve.base + c.hop + c.all_to_all_peer * remote +
                  std::max(inside, outside));
}

}  // namespace

const CollectiveAlgorithm kAllToAll{"all-to-all", Reach::Domain, carries, domain_times};
const CollectiveAlgorithm kFabricAllToAll{"all-to-all over domains", Reach::Fabric, carries,
                                          fabric_times};

}  // namespace plansearch
