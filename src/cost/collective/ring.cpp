// SPDX-License-Identifier: Apache-2.0
// Computes: rings inside a domain: latency + steps + moved bytes / rate of a rank, per protocol.
// Source: NCCL's rings and its protocols LL, LL128 and Simple (src/graph/tuning.cc); Hockney terms
//         and a fill of the chunk pipeline that grows with the root of the bytes.
// Assumes: all-reduce 2 (p - 1) steps, all-gather and reduce-scatter p - 1; (p - 1)/p of a message
//          moves per round, and a share of the own part is copied, at the rate of all links.
// Units: seconds, bytes.
// Checked by: tests/unit/cost/collective_cost_test.cpp; docs/validation.md (NCCL tables)
#include "cost/collective/algorithm.hpp"

namespace plansearch {
namespace {

bool carries(const CollectiveCall& call) {
  return is_ring_kind(call.kind);
}

void times(const CollectiveCall& call, ProtocolTimes& times) {
  const LocalLinkCurve& c = call.link.curve;
  const double ranks = call.span.ranks;
  const double steps = latency_steps(call.kind, ranks);
  const Bytes passed = call.size * wire_share(call.kind, ranks);
  const Bytes copied = c.local_copy * call.size / ranks;
  // The own part is copied inside a device, whatever links the group has.
  const Bytes moved = passed + copied * call.link.share;
  const Seconds latency = c.base + c.step * steps;
  const Seconds late = latency + c.low_latency_128_base;
  times.push_back(latency + (passed + copied) / call.link.low_latency);
  times.push_back(late + moved / call.link.low_latency_128);
  times.push_back(late + c.simple_base + c.simple_step * steps + fill_time(c.fill, moved) +
                  moved / call.link.simple);
}

}  // namespace

const CollectiveAlgorithm kRing{"ring", Reach::Domain, carries, times};

}  // namespace plansearch
