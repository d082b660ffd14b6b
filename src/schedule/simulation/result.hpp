// SPDX-License-Identifier: Apache-2.0
// Times of a simulated pipeline.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/simulation/ticks.hpp"

namespace plansearch {

struct DeviceUse {
  Ticks first_start = 0;
  Ticks last_end = 0;          ///< includes the last blocking send
  Ticks busy = 0;              ///< computing
  Ticks exposed_transfer = 0;  ///< not computing because a message was on its way or being sent
  bool operator==(const DeviceUse&) const = default;
};

struct PipelineResult {
  Ticks makespan = 0;  ///< from the first start to the last end of all devices
  std::vector<DeviceUse> devices;
  int micro_batches_simulated = 0;  ///< the others were extrapolated (0: closed form)

  /// Idle for lack of work: neither computing nor waiting for a transfer.
  [[nodiscard]] Ticks bubble(std::size_t device) const {
    return makespan - devices[device].busy - devices[device].exposed_transfer;
  }
  /// Longest time between a device's first start and its last end.
  [[nodiscard]] Ticks span() const;
};

enum class SteadyState : std::uint8_t { Extrapolate, SimulateAll };

}  // namespace plansearch
