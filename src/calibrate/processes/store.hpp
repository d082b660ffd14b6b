// SPDX-License-Identifier: Apache-2.0
// Processes that meet at a TCP port of the first: no MPI is needed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "calibrate/processes/launch.hpp"
#include "calibrate/processes/processes.hpp"

namespace plansearch::calibrate {

/// A process that ended before its time, as the others see it; thrown.
struct ProcessLost {
  std::string reason;
};

/// Waits for all of them, at most so many seconds; throws Unmeasurable that names who is missing.
[[nodiscard]] std::unique_ptr<Processes> join_store(
    const Launch& launch, const std::function<void(const std::string&)>& on_loss, double seconds);

}  // namespace plansearch::calibrate
