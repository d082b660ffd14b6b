// SPDX-License-Identifier: Apache-2.0
// Computes: whether the tensors that a plan keeps in memory of the host can be there.
// Source: the framework's file; parameters come to the device for every gather of ZeRO-3.
// Assumes: machines whose hosts are not described have taken the framework's abilities away.
// Units: bits of HostTensors.
// Checked by: tests/unit/plan/offload_test.cpp
#include <fmt/format.h>

#include "plan/legality/legality_parts.hpp"
#include "plan/primitives/offload.hpp"

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
