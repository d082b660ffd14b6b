// SPDX-License-Identifier: Apache-2.0
// Computes: an exchange of tokens that goes over nodes: latency + the slower of what leaves the
//           node (a token once to each other node that holds one of its experts) and what its
//           devices pass on over their links (there once to each other device).
// Source: deepseek-ai/DeepEP@dd758ca docs/legacy.md and csrc/kernels/legacy/internode.cu: RDMA to
//         the device of the same index, NVLink from there; both run at once.
// Assumes: experts are spread evenly, so that 1/nodes of the touched nodes are the token's own and
//          1/devices of the touched devices of a node are the one that passes on.
// Units: seconds, bytes.
// Checked by: tests/unit/cost/token_spread_test.cpp
#include <algorithm>

#include "cost/collective/algorithm.hpp"

namespace plansearch {
namespace {

bool carries(const CollectiveCall& call) {
  return call.spread != nullptr;
}

void domain_times(const CollectiveCall& call, ProtocolTimes& times) {
  const ExchangedBytes bytes = exchanged_bytes(call.size, call.span, *call.spread);
  times.push_back(call.link.curve.base + call.link.curve.pairwise_base +
                  bytes.inside / (call.inner_line * call.spread->link_share));
}

void fabric_times(const CollectiveCall& call, ProtocolTimes& times) {
  const ExchangedBytes bytes = exchanged_bytes(call.size, call.span, *call.spread);
  times.push_back(call.link.curve.base + call.fabric->curve.hop +
                  std::max(bytes.outside / (call.fabric->card * call.spread->fabric_share),
                           bytes.inside / (call.inner_line * call.spread->link_share)));
}

}  // namespace

ExchangedBytes exchanged_bytes(Bytes size, const GroupSpan& span, const TokenSpread& spread) {
  const Bytes token = size / spread.copies;  // all of a device
  return {token * (spread.nodes * (1.0 - 1.0 / span.nodes)),
          token * (spread.devices * (1.0 - 1.0 / span.local))};
}

const CollectiveAlgorithm kTokenExchange{"token exchange", Reach::Domain, carries, domain_times};
const CollectiveAlgorithm kFabricTokenExchange{"token exchange over domains", Reach::Fabric,
                                               carries, fabric_times};

}  // namespace plansearch
