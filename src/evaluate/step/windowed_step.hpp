// SPDX-License-Identifier: Apache-2.0
// The step of a plan whose order is found: groups on their stages, gangs on the devices of several.
#pragma once

#include <vector>

#include "evaluate/step/pricing_input.hpp"
#include "plansearch/evaluator.hpp"
#include "schedule/window/window_search.hpp"

namespace plansearch {

struct WindowedStep {
  PipelineDurations durations;  ///< that it was made for
  std::vector<OrderRule> rules;
  int micro_batches = 0;
  BlockPlan plan;      ///< node 2k: forward of stop k, 2k + 1: its backward; devices are positions
  WindowOrder order;   ///< in rounded ticks
  BlockStarts starts;  ///< in ticks
  std::vector<DeviceEnd> ends;    ///< by position
  std::vector<DeviceUse> uses{};  ///< by position
  Ticks makespan = 0;
};

/// The window of the plan, and what it comes to. Needs workspace.durations. Kept for plans of equal
/// durations. SimulationLimit where no window is found; Stopped.
const WindowedStep& windowed_step(const PricingInput& view, EvaluationWorkspace& workspace);

/// No order of the passes takes less, from the start of a step to that of the next. Needs
/// workspace.durations.
[[nodiscard]] Ticks least_window_step(const PricingInput& view, OptimizerStart start,
                                      EvaluationWorkspace& workspace);
/// No order keeps less on a device: all that one micro-batch leaves there, as its first backward
/// starts when its last forward is over.
[[nodiscard]] Bytes least_window_peak(const PricingInput& view, int position);

/// Most activations that a device keeps at one time.
[[nodiscard]] Bytes window_peak(const PricingInput& view, int position,
                                EvaluationWorkspace& workspace);

/// The same for readers. Needs workspace.durations.
[[nodiscard]] FoundOrder found_order(const PricingInput& view, EvaluationWorkspace& workspace);

}  // namespace plansearch
