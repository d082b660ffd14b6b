// SPDX-License-Identifier: Apache-2.0
// Computes: an all-reduce in the switch: latency + message x (1 + 1/p) / rate of the switch.
// Source: NVLS of NCCL: every rank sends its message once and receives its share of the sum.
// Assumes: three ranks or more; two exchange directly.
// Units: seconds, bytes.
// Checked by: tests/unit/cost/collective_cost_test.cpp; docs/validation.md (NCCL tables)
#include "cost/collective/algorithm.hpp"

namespace plansearch {
namespace {

bool carries(const CollectiveCall& call) {
  return call.kind == CommunicationKind::AllReduce && call.link.curve.switch_reduction &&
         call.span.ranks >= kSwitchRanks;
}

void times(const CollectiveCall& call, ProtocolTimes& times) {
  const LocalLinkCurve& c = call.link.curve;
  const double ranks = call.span.ranks;
  const Bytes moved = call.size * wire_share(call.kind, ranks) + c.local_copy * call.size / ranks;
  times.push_back(c.base + c.step * latency_steps(call.kind, ranks) + c.switch_base +
                  fill_time(c.fill, moved) + call.size * (1.0 + 1.0 / ranks) / *c.switch_reduction);
}

}  // namespace

const CollectiveAlgorithm kSwitchReduction{"in-switch", Reach::Domain, carries, times};

}  // namespace plansearch
