// SPDX-License-Identifier: Apache-2.0
// Computes: how long the copies of a block to and from its host take, and what its passes wait for
//           them: what they exceed kernels and messages by.
// Source: pytorch/torchtune@05cda5e9 torchtune/training/_activation_offloading.py: a stream of its
//         own copies what a layer keeps under the next one, and back under the backward pass;
//         PyTorch CPUOffloadPolicy: shards are copied to the device before their all-gather, in
//         its stream; DeepSpeed ZeRO-Infinity (Rajbhandari et al., SC 2021, arXiv 2104.07857),
//         section 6: prefetch of parameters.
// Assumes: blocks follow their like, so that in the long run a pass takes as long as the slowest of
//          its streams; a link carries both directions at once, and the copies of one direction
//          after each other; copies take no processors of the device.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/host_copies_test.cpp (streams run copy by copy)
#include "evaluate/block/host_copies.hpp"

#include <algorithm>

namespace plansearch {
namespace {

Seconds excess(Seconds copies, Seconds device) {
  return std::max(copies - device, Seconds(0));
}

void wait(Seconds time, PassProfile& pass) {
  pass.exposed[static_cast<std::size_t>(Purpose::Offload)] += time;
}

}  // namespace

HostCopies host_copies(const PricingContext& context, Bytes offloaded,
                       const FetchedBytes& fetched) {
  if (offloaded == Bytes(0) && fetched.forward == Bytes(0)) return {};
  const Host& host = context.problem.cluster->host.value();
  return {std::max(offloaded / host.from_device, fetched.forward / host.to_device),
          (offloaded + fetched.backward) / host.to_device};
}

void wait_for_copies(const HostCopies& copies, BlockTimes& times) {
  if (copies.forward == Seconds(0) && copies.backward == Seconds(0)) return;
  wait(excess(copies.forward, times.forward.device()), times.forward);
  const Seconds again = times.recompute.device();
  wait(excess(copies.backward, again + times.backward.device()), times.backward);
  wait(excess(copies.backward, again + times.input_gradient.device()), times.input_gradient);
}

}  // namespace plansearch
