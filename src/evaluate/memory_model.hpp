// SPDX-License-Identifier: Apache-2.0
// Peak memory of a plan, device by device.
#pragma once

#include "evaluate/step_model.hpp"

namespace plansearch {

/// The device that needs most.
[[nodiscard]] DeviceMemory worst_device_memory(const PlanView& view,
                                               EvaluationWorkspace& workspace);
/// One given device (stage).
[[nodiscard]] DeviceMemory device_memory(const PlanView& view, int device,
                                         EvaluationWorkspace& workspace);

}  // namespace plansearch
