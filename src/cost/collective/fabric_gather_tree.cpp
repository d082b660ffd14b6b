// SPDX-License-Identifier: Apache-2.0
// Computes: gathers and scatters over aggregated trees between single ranks of domains: hops by the
//           logarithm of the domains, a share of every rank, bytes at a part of line rate.
// Source: NCCL's PAT (since 2.23; S. Jeaugey, arXiv 2506.20252; NVIDIA/nccl@5067397c
//         src/graph/tuning.cc: ncclPatEnable, ncclTopoTuneModel): one rank per node, 0.75 of the
//         ring's bandwidth, log2(nodes) hops and 2.8 us a rank.
// Assumes: the library takes it where it is faster than its rings.
// Units: seconds, bytes.
// Checked by: tests/unit/cost/gather_scale_test.cpp
#include <cmath>

#include "cost/collective/algorithm.hpp"

namespace plansearch {
namespace {

bool carries(const CollectiveCall& call) {
  const bool gathers =
      call.kind == CommunicationKind::AllGather || call.kind == CommunicationKind::ReduceScatter;
  return gathers && call.span.local == 1.0 && call.fabric->curve.gather_tree_efficiency.has_value();
}

void times(const CollectiveCall& call, ProtocolTimes& times) {
  const GroupSpan& s = call.span;
  const FabricCurve& curve = call.fabric->curve;
  const Bytes moved = wire_share(call.kind, s.ranks) * call.size;
  times.push_back(call.link.curve.base + std::log2(s.nodes) * curve.gather_tree_hop +
                  s.ranks * curve.gather_tree_rank +
                  moved / (call.fabric->line * *curve.gather_tree_efficiency));
}

}  // namespace

const CollectiveAlgorithm kFabricGatherTree{"gather trees over domains", Reach::Fabric, carries,
                                            times};

}  // namespace plansearch
