// SPDX-License-Identifier: Apache-2.0
// Computes: how long the copies of a block to and from its host take, and what its passes wait for
//           them: what they exceed kernels and messages by.
// Source: pytorch/torchtune@05cda5e9 torchtune/training/_activation_offloading.py: a stream of its
//         own copies what a layer keeps under the next one, and back under the backward pass;
//         PyTorch save_on_cpu: copies between kernels; PyTorch CPUOffloadPolicy: shards are copied
//         to the device before their all-gather, in its stream; DeepSpeed ZeRO-Infinity
//         (Rajbhandari et al., SC 2021, arXiv 2104.07857), section 6: prefetch of parameters.
// Assumes: blocks follow their like, so that in the long run a pass takes as long as the slowest of
//          its streams; a link carries both directions at once, and the copies of one direction
//          after each other; copies take no processors of the device.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/host_copies_test.cpp (streams run copy by copy)
#include "evaluate/block/host_copies.hpp"

#include <algorithm>

namespace plansearch {

HostCopies host_copies(const PricingContext& context, Bytes offloaded,
                       const FetchedBytes& fetched) {
  if (offloaded == Bytes(0) && fetched.forward == Bytes(0)) return {};
  const Host& host = context.problem.cluster->host.value();
  const Seconds out = offloaded / host.from_device, back = offloaded / host.to_device;
  const Seconds first = fetched.forward / host.to_device, again = fetched.backward / host.to_device;
  if (context.problem.framework->offloads_between_kernels) return {first, again, out, back};
  return {std::max(out, first), back + again};
}

void wait_for_copies(const HostCopies& copies, BlockTimes& times) {
  if (copies == HostCopies{}) return;
  const auto wait = [](PassProfile& pass, Seconds between, Seconds excess) {
    pass.exposed[std::size_t(Purpose::Offload)] += between + std::max(excess, Seconds(0));
  };
  wait(times.forward, copies.between_forward, copies.forward - times.forward.device());
  const Seconds left = copies.backward - times.recompute.device();
  wait(times.backward, copies.between_backward, left - times.backward.device());
  wait(times.input_gradient, copies.between_backward, left - times.input_gradient.device());
}

}  // namespace plansearch
