// SPDX-License-Identifier: Apache-2.0
// Computes: the time of a collective with the algorithm and protocol that a library would pick.
// Source: NCCL takes the fastest by its own estimate (src/graph/tuning.cc). Inside a domain its
//         estimates err near the crossings, which a smooth minimum shows; over domains the minimum.
// Assumes: one row per algorithm, below; what carries a call competes for it.
// Units: seconds.
// Checked by: tests/unit/cost/collective_cost_test.cpp; docs/validation.md (collective tables)
#include <algorithm>
#include <array>
#include <cmath>

#include "cost/collective/algorithm.hpp"
#include "cost/collective/collective_cost.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr std::array kAlgorithms{
    &kRing,       &kSwitchReduction, &kAllToAll,           &kSend,
    &kFabricRing, &kFabricTree,      &kFabricGatherTree,   &kFabricAllToAll,
    &kFabricSend, &kTokenExchange,   &kFabricTokenExchange};

/// Sharpness of the switch from one protocol to the next.
constexpr double kProtocolKnee = 8.0;

Seconds smooth_minimum(const ProtocolTimes& times) {
  const Seconds low = *std::ranges::min_element(times);
  if (times.size() == 1) return low;
  double sum = 0.0;
  for (const Seconds time : times) sum += std::pow(time / low, -kProtocolKnee);
  return low * std::pow(sum, -1.0 / kProtocolKnee);
}

}  // namespace

double latency_steps(CommunicationKind kind, double ranks) {
  if (ranks <= 1.0) return 0.0;
  switch (kind) {
    case CommunicationKind::AllReduce:
      return 2.0 * (ranks - 1.0);
    case CommunicationKind::AllGather:
    case CommunicationKind::ReduceScatter:
      return ranks - 1.0;
    case CommunicationKind::AllToAll:
      return std::log2(ranks) + 1.0;
    case CommunicationKind::SendReceive:
    case CommunicationKind::Permute:
      return 1.0;
    case CommunicationKind::Slice:
      return 0.0;
  }
  throw InternalError("unknown collective");
}

double wire_share(CommunicationKind kind, double ranks) {
  switch (kind) {
    case CommunicationKind::AllReduce:
      return 2.0 * (ranks - 1.0) / ranks;
    case CommunicationKind::AllGather:
    case CommunicationKind::ReduceScatter:
    case CommunicationKind::AllToAll:
      return (ranks - 1.0) / ranks;
    case CommunicationKind::SendReceive:
    case CommunicationKind::Permute:
      return 1.0;
    case CommunicationKind::Slice:
      return 0.0;
  }
  throw InternalError("unknown collective");
}

Seconds select_time(const CollectiveCall& call) {
  const Reach reach = call.fabric == nullptr ? Reach::Domain : Reach::Fabric;
  ProtocolTimes times;
  for (const CollectiveAlgorithm* algorithm : kAlgorithms) {
    if (algorithm->reach == reach && algorithm->carries(call)) algorithm->times(call, times);
  }
  PLANSEARCH_CHECK(!times.empty());
  return reach == Reach::Domain ? smooth_minimum(times) : *std::ranges::min_element(times);
}

}  // namespace plansearch
