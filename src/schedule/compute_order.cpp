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
  for (ComputeStep step : order.devices[static_cast<std::size_t>(device)]) {
    step.joined = false;
    ++seen[step];
  }
  for (std::size_t k = 0; k < order.pipeline.size(); ++k) {
    const StagePlace& place = order.pipeline[k];
    if (place.device != device) continue;
    const int first = order.first_micro_batch(k);
    for (int i = first; i < first + order.micro_batches_per_replica(); ++i) {
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

std::optional<std::size_t> ComputeOrder::neighbour(std::size_t stage, int offset) const {
  const std::size_t length = pipeline.size() / static_cast<std::size_t>(replicas);
  const std::size_t along = stage % length;
  if (offset < 0 ? along == 0 : along + 1 == length) return std::nullopt;
  return offset < 0 ? stage - 1 : stage + 1;
}

int ComputeOrder::first_micro_batch(std::size_t stage) const {
  const std::size_t length = pipeline.size() / static_cast<std::size_t>(replicas);
  return static_cast<int>(stage / length) * micro_batches_per_replica();
}

std::size_t piece_end(std::span<const ComputeStep> steps, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < steps.size() && steps[end].joined) ++end;
  return end;
}

bool overlaps(std::span<const ComputeStep> piece) {
  const auto is = [](Phase phase) {
    return [phase](const ComputeStep& step) { return step.phase == phase; };
  };
  return std::any_of(piece.begin(), piece.end(), is(Phase::Forward)) &&
         std::any_of(piece.begin(), piece.end(), is(Phase::Backward));
}

ComputeOrder empty_order(const PipelineShape& shape) {
  const Schedule& row = schedule_row(shape.schedule);
  ComputeOrder order;
  order.pipeline = row.placement->places(shape.stages, shape.chunks);
  order.replicas = row.placement->replicas;
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
