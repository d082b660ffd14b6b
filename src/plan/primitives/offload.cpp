// SPDX-License-Identifier: Apache-2.0
// Computes: which tensors a plan under a framework can keep in memory of the host.
// Source: the framework's file: optimizer_offload, offloads.
// Assumes: what is known of each kind holds beside the others, unless a rule of the framework says
// no. Units: bits of HostTensors. Checked by: tests/unit/plan/offload_test.cpp
#include "plan/primitives/offload.hpp"

#include <algorithm>
#include <bit>

namespace plansearch {

HostBits kept_on_device(const Framework& framework, HostBits tensors) {
  HostTensors can = framework.offloads;
  can.optimizer = framework.optimizer_offload.has_value();
  return static_cast<HostBits>(tensors & ~to_bits(can));
}

std::vector<HostBits> host_choices(const Framework& framework) {
  const HostBits whole = to_bits({true, true, true, {}});
  std::vector<HostBits> choices;
  for (HostBits set = 1; set <= whole; ++set) {
    if (kept_on_device(framework, set) == 0) choices.push_back(set);
  }
  std::stable_sort(choices.begin(), choices.end(),
                   [](HostBits a, HostBits b) { return std::popcount(a) < std::popcount(b); });
  return choices;
}

}  // namespace plansearch
