// SPDX-License-Identifier: Apache-2.0
// Computes:   which order a schedule has, whether an order is complete, what it keeps in memory.
// Source:     definitions.
// Assumes:    activations are kept from a chunk's forward to the end of its last backward phase.
// Units:      chunks; bytes.
// Checked by: tests/unit/schedule/orders_test.cpp
#include "schedule/compute_order.hpp"

#include <algorithm>
#include <map>

#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

Phase last_phase(const ComputeOrder& order) {
  return order.weight_gradients == WeightGradients::Separate ? Phase::WeightGradient
                                                             : Phase::Backward;
}

std::string name_of(int device, const ComputeStep& step) {
  const char letter = step.phase == Phase::Forward    ? 'F'
                      : step.phase == Phase::Backward ? 'B'
                                                      : 'W';
  return letter + std::to_string(step.micro_batch) + " of chunk " + std::to_string(step.chunk) +
         " on device " + std::to_string(device);
}

void device_faults(const ComputeOrder& order, int device, std::vector<std::string>& faults) {
  std::map<ComputeStep, int> seen;
  for (const ComputeStep& step : order.devices[static_cast<std::size_t>(device)]) ++seen[step];
  for (const StagePlace& place : order.pipeline) {
    if (place.device != device) continue;
    for (int i = 0; i < order.micro_batches; ++i) {
      for (const Phase phase : {Phase::Forward, Phase::Backward, Phase::WeightGradient}) {
        if (phase > last_phase(order)) continue;
        const ComputeStep step{place.chunk, i, phase};
        const auto found = seen.find(step);
        if (found == seen.end()) {
          faults.push_back(name_of(device, step) + " is missing");
          continue;
        }
        if (found->second > 1) {
          faults.push_back(name_of(device, step) + " is there " + std::to_string(found->second) +
                           " times");
        }
        seen.erase(found);
      }
    }
  }
  for (const auto& [step, count] : seen) {
    faults.push_back(name_of(device, step) + " does not belong there");
  }
}

}  // namespace

std::size_t ComputeOrder::virtual_stage(int device, int chunk) const {
  const auto found = std::find(pipeline.begin(), pipeline.end(), StagePlace{device, chunk});
  PLANSEARCH_CHECK(found != pipeline.end());
  return static_cast<std::size_t>(found - pipeline.begin());
}

ComputeOrder empty_order(const PipelineShape& shape) {
  const Schedule& row = schedule_row(shape.schedule);
  ComputeOrder order;
  order.pipeline = row.placement->places(shape.stages, shape.chunks);
  order.micro_batches = shape.micro_batches;
  order.weight_gradients = row.weight_gradients;
  return order;
}

std::variant<ComputeOrder, Infeasible> make_order(const PipelineShape& shape) {
  if (auto obstacle = obstacle_of(shape)) return *obstacle;
  return schedule_row(shape.schedule).order(shape);
}

std::vector<std::string> order_faults(const ComputeOrder& order) {
  std::vector<std::string> faults;
  for (std::size_t d = 0; d < order.devices.size(); ++d) {
    device_faults(order, static_cast<int>(d), faults);
  }
  return faults;
}

int peak_chunks(const ComputeOrder& order, int device) {
  int kept = 0;
  int peak = 0;
  for (const ComputeStep& step : order.devices[static_cast<std::size_t>(device)]) {
    if (step.phase == Phase::Forward) peak = std::max(peak, ++kept);
    if (step.phase == last_phase(order)) --kept;
  }
  return peak;
}

Bytes peak_activation_bytes(const ComputeOrder& order, int device,
                            std::span<const Bytes> bytes_of_chunk) {
  Bytes kept;
  Bytes peak;
  for (const ComputeStep& step : order.devices[static_cast<std::size_t>(device)]) {
    const Bytes bytes = bytes_of_chunk[static_cast<std::size_t>(step.chunk)];
    if (step.phase == Phase::Forward) kept += bytes;
    peak = std::max(peak, kept);
    if (step.phase == last_phase(order)) kept -= bytes;
  }
  return peak;
}

}  // namespace plansearch
