// SPDX-License-Identifier: Apache-2.0
// The eight phases that DualPipe and DualPipeV share.
#pragma once

#include <array>
#include <vector>

#include "schedule/order/compute_order.hpp"

namespace plansearch {

/// One device of a pipeline that is passed in two directions which meet on its last device:
/// DualPipe's two halves, and both legs of DualPipeV's V.
struct DualDevice {
  int devices = 1;                  ///< of the pipeline
  int place = 0;                    ///< of this one; the directions meet on the last
  int micro_batches = 1;            ///< per direction
  std::array<int, 2> chunks{0, 1};  ///< of the way from the first device and of the way back
  std::array<int, 2> first{0, 0};   ///< micro-batch of each way
};

/// Forwards and whole backwards of the two directions overlap; at both ends backwards leave their
/// weight gradients for later.
[[nodiscard]] std::vector<ComputeStep> dual_phases(const DualDevice& device);

}  // namespace plansearch
