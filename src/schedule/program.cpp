// SPDX-License-Identifier: Apache-2.0
// Computes:   the duration table of a pipeline program.
// Source:     definitions.
// Assumes:    row 0 takes no time; three phases per virtual stage; two directions per boundary;
//             three parts of the end of a step per device.
// Units:      ticks.
// Checked by: tests/unit/schedule/lowering_test.cpp
#include "schedule/program.hpp"

namespace plansearch {

std::uint32_t compute_row(std::size_t virtual_stage, Phase phase) {
  return static_cast<std::uint32_t>(1 + 3 * virtual_stage + static_cast<std::size_t>(phase));
}

std::uint32_t transfer_row(std::size_t virtual_stages, std::size_t boundary, Phase direction) {
  const std::size_t side = direction == Phase::Forward ? 0 : 1;
  return static_cast<std::uint32_t>(1 + 3 * virtual_stages + 2 * boundary + side);
}

std::uint32_t step_row(std::size_t virtual_stages, int device, StepPart part) {
  const auto d = static_cast<std::size_t>(device);
  return static_cast<std::uint32_t>(1 + 3 * virtual_stages + 2 * (virtual_stages - 1) + 3 * d +
                                    static_cast<std::size_t>(part));
}

std::vector<Ticks> duration_table(const PipelineTimes& times, WeightGradients split,
                                  std::span<const StepEndTicks> ends) {
  const std::size_t count = times.forward.size();
  std::vector<Ticks> table{0};
  table.reserve(1 + 5 * count + 3 * ends.size());
  for (std::size_t k = 0; k < count; ++k) {
    const Ticks weight = times.weight_gradient.empty() ? 0 : times.weight_gradient[k];
    const bool fused = split == WeightGradients::Fused;
    table.push_back(times.forward[k]);
    table.push_back(times.backward[k] + (fused ? weight : 0));
    table.push_back(fused ? 0 : weight);
  }
  for (std::size_t k = 0; k + 1 < count; ++k) {
    table.push_back(times.activation_transfer[k]);
    table.push_back(times.gradient_transfer[k]);
  }
  for (const StepEndTicks& end : ends) {
    table.insert(table.end(), {end.reduction, end.shared_reduction, end.optimizer});
  }
  return table;
}

}  // namespace plansearch
