// SPDX-License-Identifier: Apache-2.0
// Computes:   the duration table of a pipeline program.
// Source:     definitions.
// Assumes:    row 0 takes no time; three phases per virtual stage and the overlapped forward; two
// directions per boundary;
//             three parts of the end of a step per device.
// Units:      ticks.
// Checked by: tests/unit/schedule/lowering_test.cpp
#include "schedule/program/program.hpp"

namespace plansearch {

constexpr std::size_t kRowsOfStage = 4;

std::uint32_t compute_row(std::size_t virtual_stage, Phase phase) {
  return static_cast<std::uint32_t>(1 + kRowsOfStage * virtual_stage +
                                    static_cast<std::size_t>(phase));
}

std::uint32_t overlapped_row(std::size_t virtual_stage) {
  return static_cast<std::uint32_t>(kRowsOfStage * (virtual_stage + 1));
}

std::uint32_t transfer_row(std::size_t virtual_stages, std::size_t boundary, Phase direction) {
  const std::size_t side = direction == Phase::Forward ? 0 : 1;
  return static_cast<std::uint32_t>(1 + kRowsOfStage * virtual_stages + 2 * boundary + side);
}

std::uint32_t message_row(std::size_t virtual_stages, const TemplateNode& from) {
  const auto stage = static_cast<std::size_t>(from.group);
  const bool forward = from.phase == Phase::Forward;
  return transfer_row(virtual_stages, forward ? stage : stage - 1, from.phase);
}

std::uint32_t step_row(std::size_t virtual_stages, int device, StepPart part) {
  const auto d = static_cast<std::size_t>(device);
  return transfer_row(virtual_stages, virtual_stages, Phase::Forward) +
         static_cast<std::uint32_t>(3 * d + static_cast<std::size_t>(part));
}

void fill_duration_table(const PipelineTimes& times, WeightGradients split,
                         std::span<const StepEndTicks> ends, std::vector<Ticks>& table) {
  const std::size_t count = times.forward.size();
  const bool fused = split == WeightGradients::Fused;
  const auto overlapped =
      times.overlapped_forward.empty() ? times.forward : times.overlapped_forward;
  table.clear();
  table.reserve(1 + (kRowsOfStage + 2) * count + 3 * ends.size());
  table.push_back(0);
  for (std::size_t k = 0; k < count; ++k) {
    const Ticks weight = times.weight_gradient.empty() ? 0 : times.weight_gradient[k];
    table.push_back(times.forward[k]);
    table.push_back(times.backward[k] + (fused ? weight : 0));
    table.push_back(fused ? 0 : weight);
    table.push_back(overlapped[k]);
  }
  // The last boundary returns to the first stage, where there is one.
  for (std::size_t k = 0; k < count; ++k) {
    const bool there = k < times.activation_transfer.size();
    table.push_back(there ? times.activation_transfer[k] : 0);
    table.push_back(there ? times.gradient_transfer[k] : 0);
  }
  for (const StepEndTicks& end : ends) {
    table.insert(table.end(), {end.reduction, end.shared_reduction, end.optimizer});
  }
}

std::vector<Ticks> duration_table(const PipelineTimes& times, WeightGradients split,
                                  std::span<const StepEndTicks> ends) {
  std::vector<Ticks> table;
  fill_duration_table(times, split, ends, table);
  return table;
}

}  // namespace plansearch
