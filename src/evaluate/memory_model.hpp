// SPDX-License-Identifier: Apache-2.0
// Peak memory of a plan, device by device.
#pragma once

#include "evaluate/plan_view.hpp"
#include "plansearch/evaluation.hpp"

namespace plansearch {

/// The device that needs most.
[[nodiscard]] DeviceMemory worst_device_memory(const PlanView& view,
                                               EvaluationWorkspace& workspace);
/// The devices of one position.
[[nodiscard]] DeviceMemory device_memory(const PlanView& view, int position,
                                         EvaluationWorkspace& workspace);

}  // namespace plansearch
