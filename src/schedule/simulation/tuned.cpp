// SPDX-License-Identifier: Apache-2.0
// Computes:   the proportions of a pipeline's pieces, for orders that are made for them, and the
//             places of its stages where those are open.
// Source:     means over virtual stages and boundaries.
// Assumes:    orders that differ by less than 1/64 of the longest phase are as good.
// Units:      ticks in, units of 1/64 of the longest phase out.
// Checked by: tests/unit/schedule/orders/zb_auto_test.cpp
#include <algorithm>
#include <numeric>

#include "schedule/simulation/simulator.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

constexpr Ticks kFewTicks = 64;

Ticks mean(std::span<const Ticks> durations) {
  if (durations.empty()) return 0;
  const Ticks sum = std::accumulate(durations.begin(), durations.end(), Ticks{0});
  return sum / static_cast<Ticks>(durations.size());
}

}  // namespace

PipelineShape tuned_to(const PipelineShape& shape, const PipelineTimes& times) {
  if (!schedule_row(shape.schedule).tuned || shape.tuned) return shape;
  UniformTimes unit{mean(times.forward), mean(times.backward), mean(times.activation_transfer),
                    mean(times.weight_gradient)};
  const Ticks longest = std::max({unit.forward, unit.backward, unit.weight, Ticks{1}});
  const auto scaled = [&](Ticks ticks) {
    const auto share = static_cast<double>(ticks) / static_cast<double>(longest);
    return static_cast<Ticks>(share * static_cast<double>(kFewTicks) + 0.5);
  };
  if (longest > kFewTicks) {
    unit = {scaled(unit.forward), scaled(unit.backward), scaled(unit.transfer),
            scaled(unit.weight)};
  }
  PipelineShape tuned = shape;
  tuned.tuned = unit;
  return tuned;
}

PipelineShape placed_for(const PipelineShape& tuned, const PipelineTimes& times) {
  const StageMapping* other = schedule_row(tuned.schedule).other_placement;
  if (other == nullptr || tuned.chunks == 1) return tuned;
  PipelineShape moved = tuned;
  moved.placement = other;
  PipelineSimulator simulator;
  const Ticks stays = simulator.run(tuned, times).makespan;
  return simulator.run(moved, times).makespan < stays ? moved : tuned;
}

}  // namespace plansearch
