// SPDX-License-Identifier: Apache-2.0
// Computes:   compute orders from a pattern of slots that repeats.
// Source:     Qi et al., Pipeline Parallelism with Controllable Memory (arXiv 2405.15362), section
//             3: uniform repetition, weight gradients in the gaps, then squeezed, which running in
//             order does by itself.
// Assumes:    no two pieces of a device in one slot: offsets that differ modulo 6.
// Units:      slots of one piece.
// Checked by: tests/unit/schedule/orders/v_half_test.cpp, v_min_test.cpp
#include "schedule/orders/v_pattern.hpp"
#include "schedule/table.hpp"

#include <deque>
#include <map>

namespace plansearch {
namespace {

constexpr int kPeriod = 6;  // pieces of one micro-batch on a device: two chunks, three phases

std::vector<ComputeStep> device_steps(const VSlots& slots, int micro_batches) {
  constexpr std::array<ComputeStep, 4> kPieces{{{0, 0, Phase::Forward},
                                                {1, 0, Phase::Forward},
                                                {1, 0, Phase::Backward},
                                                {0, 0, Phase::Backward}}};
  std::map<int, ComputeStep> at;
  for (std::size_t piece = 0; piece < kPieces.size(); ++piece) {
    for (int i = 0; i < micro_batches; ++i) {
      ComputeStep step = kPieces[piece];
      step.micro_batch = i;
      at.emplace(slots[piece] + kPeriod * i, step);
    }
  }
  std::vector<ComputeStep> steps;
  std::deque<ComputeStep> weights;
  const auto run_weight = [&] {
    steps.push_back(weights.front());
    weights.pop_front();
  };
  int now = 0;
  for (const auto& [slot, step] : at) {
    for (; now < slot && !weights.empty(); ++now) run_weight();
    now = slot + 1;
    steps.push_back(step);
    if (step.phase != Phase::Backward) continue;
    weights.push_back({step.chunk, step.micro_batch, Phase::WeightGradient});
  }
  while (!weights.empty()) run_weight();
  return steps;
}

}  // namespace

ComputeOrder v_pattern_order(const PipelineShape& shape, VSlots (*slots)(int stages, int device)) {
  ComputeOrder order = empty_order(shape);
  for (int device = 0; device < shape.stages; ++device) {
    order.devices.push_back(device_steps(slots(shape.stages, device), shape.micro_batches));
  }
  return order;
}

}  // namespace plansearch
