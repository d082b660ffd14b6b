// SPDX-License-Identifier: Apache-2.0
// Computes:   which order a schedule has, whether an order is complete.
// Source:     definitions.
// Assumes:    nothing.
// Units:      none.
// Checked by: tests/unit/schedule/orders_test.cpp
#include "schedule/order/compute_order.hpp"

#include <algorithm>
#include <string_view>

#include "plansearch/error.hpp"
#include "schedule/templates/task_template.hpp"

namespace plansearch {
namespace {

std::string name_of(int device, const ComputeStep& step) {
  return step_name(step.phase, step.micro_batch, step.pass) + " of chunk " +
         std::to_string(step.chunk) + " on device " + std::to_string(device);
}

/// Counts the steps of an order by virtual stage, micro-batch and phase.
class StepCount {
 public:
  explicit StepCount(const ComputeOrder& order)
      : order_(order),
        nodes_(order),
        stage_of_(order.devices.size() * static_cast<std::size_t>(order.chunks()), kNoStage),
        seen_(
            order.pipeline.size() * nodes_.of_stage * static_cast<std::size_t>(order.micro_batches),
            0) {
    for (std::size_t k = 0; k < order.pipeline.size(); ++k) {
      const StagePlace& place = order.pipeline[k];
      stage_of_[static_cast<std::size_t>(place.device * order.chunks() + place.chunk)] = k;
    }
  }

  void check_device(int device, std::vector<std::string>& faults) {
    const auto& steps = order_.devices[static_cast<std::size_t>(device)];
    std::vector<ComputeStep> unknown;
    for (ComputeStep step : steps) {
      step.joined = false;
      const std::size_t k = stage_at(device, step.chunk);
      known(k, step) ? void(++seen_[number(k, step)]) : unknown.push_back(step);
    }
    if (!steps.empty() && steps.front().joined) {
      faults.push_back(name_of(device, steps.front()) + " is joined to nothing");
    }
    for (int chunk = 0; chunk < order_.chunks(); ++chunk) {
      const std::size_t k = stage_at(device, chunk);
      if (k != kNoStage) check_stage(k, faults);
    }
    std::sort(unknown.begin(), unknown.end());
    unknown.erase(std::unique(unknown.begin(), unknown.end()), unknown.end());
    for (const ComputeStep& step : unknown) {
      faults.push_back(name_of(device, step) + " does not belong there");
    }
  }

 private:
  static constexpr std::size_t kNoStage = ~std::size_t{0};

  [[nodiscard]] std::size_t stage_at(int device, int chunk) const {
    if (chunk < 0 || chunk >= order_.chunks()) return kNoStage;
    return stage_of_[static_cast<std::size_t>(device * order_.chunks() + chunk)];
  }
  [[nodiscard]] bool known(std::size_t k, const ComputeStep& step) const {
    if (k == kNoStage || step.phase > order_.last_phase()) return false;
    const int passes = step.phase == Phase::Forward ? order_.forwards : 1;
    if (step.pass < 0 || step.pass >= passes) return false;
    const int first = order_.first_micro_batch(k);
    return step.micro_batch >= first &&
           step.micro_batch < first + order_.micro_batches_per_replica();
  }
  [[nodiscard]] std::size_t number(std::size_t k, const ComputeStep& step) const {
    return nodes_.of(k, step) * static_cast<std::size_t>(order_.micro_batches) +
           static_cast<std::size_t>(step.micro_batch);
  }

  void check_stage(std::size_t k, std::vector<std::string>& faults) const {
    const StagePlace& place = order_.pipeline[k];
    const int first = order_.first_micro_batch(k);
    for (int i = first; i < first + order_.micro_batches_per_replica(); ++i) {
      for (int pass = 0; pass < order_.forwards; ++pass) {
        check_step(k, {place.chunk, i, Phase::Forward, false, pass}, faults);
      }
      check_step(k, {place.chunk, i, Phase::Backward}, faults);
      if (order_.last_phase() == Phase::Backward) continue;
      check_step(k, {place.chunk, i, Phase::WeightGradient}, faults);
    }
  }
  void check_step(std::size_t k, const ComputeStep& step, std::vector<std::string>& faults) const {
    const int times = seen_[number(k, step)];
    if (times == 1) return;
    faults.push_back(name_of(order_.pipeline[k].device, step) +
                     (times == 0 ? std::string(" is missing")
                                 : " is there " + std::to_string(times) + " times"));
  }

  const ComputeOrder& order_;
  PipelineNodes nodes_;
  std::vector<std::size_t> stage_of_;  ///< by device and chunk
  std::vector<int> seen_;
};

}  // namespace

std::string step_name(Phase phase, int micro_batch, int pass) {
  constexpr std::string_view kLetters = "FBW";
  return kLetters[static_cast<std::size_t>(phase)] + std::to_string(micro_batch) +
         (pass > 0 ? " of pass " + std::to_string(pass + 1) : "");
}

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

ComputeOrder with_forwards_in_a_row(ComputeOrder order, int forwards) {
  order.forwards = forwards;
  for (auto& steps : order.devices) {
    std::vector<ComputeStep> passes;
    for (ComputeStep step : steps) {
      if (step.phase != Phase::Forward) continue;
      for (step.pass = 0; step.pass < forwards; ++step.pass) passes.push_back(step);
    }
    std::size_t next = 0;
    for (ComputeStep& step : steps) {
      if (step.phase == Phase::Forward) step = passes[next++];
      step.joined = false;
    }
    steps.insert(steps.end(), passes.begin() + static_cast<std::ptrdiff_t>(next), passes.end());
  }
  return order;
}

std::vector<std::string> order_faults(const ComputeOrder& order) {
  std::vector<std::string> faults;
  StepCount count(order);
  for (std::size_t d = 0; d < order.devices.size(); ++d) {
    count.check_device(static_cast<int>(d), faults);
  }
  return faults;
}

}  // namespace plansearch
