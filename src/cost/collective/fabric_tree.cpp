// SPDX-License-Identifier: Apache-2.0
// Computes: an all-reduce on a double tree over domains: 2 log2(domains) hops + the slower of the
//           cards (two messages through an inner node) and the reduction inside a domain.
// Source: NCCL's double binary trees (Sanders et al. 2009; src/graph/tuning.cc), chains or the
//         switch inside a domain.
// Assumes: with two domains each sends the message once. Steps of real runs show the average over
//          domains: their skew hides the busiest one.
// Units: seconds, bytes.
// Checked by: tests/unit/cost/collective_cost_test.cpp, in_step_collective_test.cpp
#include <algorithm>

#include "cost/collective/algorithm.hpp"

namespace plansearch {
namespace {

bool carries(const CollectiveCall& call) {
  return call.kind == CommunicationKind::AllReduce && call.fabric->curve.trees;
}

/// Messages that the cards of a domain send.
double messages_sent(const GroupSpan& span, Contention contention) {
  if (contention == Contention::TrainingStep) return 2.0 * (span.nodes - 1.0) / span.nodes;
  return span.nodes > 2.0 ? 2.0 : 1.0;
}

Seconds inner_time(const CollectiveCall& call) {
  const double local = call.span.local;
  const auto& reduction = call.link.curve.switch_reduction;
  return reduction && local >= kSwitchRanks
             ? call.size * (1.0 + 1.0 / local) / *reduction
             : 2.0 * (local - 1.0) / local * call.size / call.link.simple;
}

void times(const CollectiveCall& call, ProtocolTimes& times) {
  const GroupSpan& s = call.span;
  const FabricLink& f = *call.fabric;
  const LocalLinkCurve& local = call.link.curve;
  const double levels = std::log2(s.nodes);
  const Seconds base = local.base + 2.0 * (s.local - 1.0) * local.step;
  const Seconds outside = messages_sent(s, f.contention) * call.size / f.line;
  const double fill = f.curve.fill + f.curve.forward_fill * 2.0 * std::max(0.0, levels - 1.0);
  times.push_back(base + 2.0 * levels * f.curve.hop_low_latency +
                  wire_share(call.kind, s.ranks) * call.size / f.low_latency);
  times.push_back(base + 2.0 * levels * f.curve.hop + std::max(inner_time(call), outside) +
                  fill_time(fill, call.size));
}

}  // namespace

const CollectiveAlgorithm kFabricTree{"tree over domains", Reach::Fabric, carries, times};

}  // namespace plansearch
