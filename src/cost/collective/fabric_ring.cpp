// SPDX-License-Identifier: Apache-2.0
// Computes: rings over domains: latency of the hops + the slower of the cards and the inner links.
// Source: NCCL's flat rings, one per card, protocols LL and Simple, the only algorithm of its
//         gathers and scatters with several ranks per domain, however many there are
//         (NVIDIA/nccl@5067397c src/graph/tuning.cc: ncclTopoTuneModel; trees are for all-reduces,
//         PAT for one rank per domain, the switch and CollNet for one domain or a plugin).
// Assumes: a ring enters and leaves each domain once, so the cards of every domain pass on
//          (p - 1)/p of the message, in p - 1 pieces, each with the cost of a step. The last piece
//          to arrive skipped a link inside a domain, so it crossed between all of them.
// Units: seconds, bytes.
// Checked by: tests/unit/cost/collective_cost_test.cpp, in_step_collective_test.cpp
#include <algorithm>

#include "cost/collective/algorithm.hpp"

namespace plansearch {
namespace {

bool carries(const CollectiveCall& call) {
  return is_ring_kind(call.kind);
}

void times(const CollectiveCall& call, ProtocolTimes& times) {
  const GroupSpan& s = call.span;
  const FabricLink& f = *call.fabric;
  const LocalLinkCurve& local = call.link.curve;
  const double rounds = call.kind == CommunicationKind::AllReduce ? 2.0 : 1.0;
  const Bytes moved = wire_share(call.kind, s.ranks) * call.size;
  const Seconds outside = moved / f.line;
  const double crossings = std::min(s.nodes, s.ranks - 1.0);
  const Seconds path =
      crossings * f.curve.hop_low_latency + (s.ranks - 1.0 - crossings) * local.step;
  const Seconds cards = (s.ranks - 1.0) * f.curve.ring_step_low_latency;
  times.push_back(local.base + rounds * std::max(path, cards) + moved / f.low_latency);
  times.push_back(local.base + f.curve.hop + f.curve.ring_step * rounds * (s.ranks - 1.0) +
                  fill_time(f.curve.fill, call.size) + std::max(outside, moved / call.link.simple));
}

}  // namespace

const CollectiveAlgorithm kFabricRing{"ring over domains", Reach::Fabric, carries, times};

}  // namespace plansearch
