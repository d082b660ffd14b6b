// SPDX-License-Identifier: Apache-2.0
// Computes: the tensors that a plan under a framework can keep in memory of the host.
// Source: the framework's file: optimizer_offload, offloads; parameters come to the device for
//         every gather of ZeRO-3.
// Assumes: abilities for single kinds of tensors combine, unless a rule of the framework says no;
//          machines whose hosts are not described have taken the framework's abilities away.
// Units: bits of HostTensors.
// Checked by: tests/unit/plan/offload_test.cpp
#include "plan/primitives/offload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "plan/legality/legality_parts.hpp"

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
  std::ranges::stable_sort(
      choices, [](HostBits a, HostBits b) { return std::popcount(a) < std::popcount(b); });
  return choices;
}

}  // namespace plansearch

namespace plansearch::legality {

std::optional<Infeasible> check_kept_on_host(const RuleCase& c, Wording wording) {
  if (c.plan.on_host == 0) return std::nullopt;
  if (const HostBits unknown = kept_on_device(c.framework, c.plan.on_host); unknown != 0) {
    return refuse(wording, Obstacle::FrameworkForbids, 0, 0, [&] {
      return fmt::format("{} keeps {} on the device", c.framework.name, host_text(unknown));
    });
  }
  if (!host_tensors(c.plan.on_host).parameters || c.plan.zero == ZeroStage::Parameters) {
    return std::nullopt;
  }
  return refuse(wording, Obstacle::FrameworkForbids, 3, static_cast<double>(c.plan.zero), [] {
    return std::string("parameters on the host are those that ranks share (--zero 3)");
  });
}

}  // namespace plansearch::legality
