// SPDX-License-Identifier: Apache-2.0
// Computes:   the cycle of waits of an order that cannot run; where an order outgrows its memory.
// Source:     definitions: a step needs its input from the stage before (behind, for backwards), a
//             backward its forward, a weight gradient its input gradient; devices run in order.
// Assumes:    as order_check.hpp.
// Units:      ticks; chunks.
// Checked by: tests/unit/schedule/order_check_test.cpp, against a token simulator
#include "schedule/order/order_check.hpp"

#include <algorithm>
#include <array>

#include "plansearch/error.hpp"
#include "schedule/program/timeline.hpp"

namespace plansearch {
namespace {

constexpr std::size_t kNowhere = ~std::size_t{0};

std::string name_of(const WaitingStep& waiting) {
  constexpr std::array<char, 3> kLetters{'F', 'B', 'W'};
  return std::string(1, kLetters[static_cast<std::size_t>(waiting.step.phase)]) +
         std::to_string(waiting.step.micro_batch) + " of stage " + std::to_string(waiting.stage);
}

/// Steps by number: virtual stage, micro-batch and phase.
class Runner {
 public:
  explicit Runner(const ComputeOrder& order)
      : order_(order), next_(order.devices.size(), 0), stage_of_(order.pipeline.size()) {
    for (std::size_t k = 0; k < order.pipeline.size(); ++k) {
      const StagePlace& place = order.pipeline[k];
      stage_of_[static_cast<std::size_t>(place.device * order.chunks() + place.chunk)] = k;
    }
    const std::size_t all =
        order.pipeline.size() * static_cast<std::size_t>(order.micro_batches) * 3;
    done_.assign(all, false);
    device_of_.assign(all, 0);
    for (std::size_t d = 0; d < order.devices.size(); ++d) {
      for (const ComputeStep& step : order.devices[d]) {
        device_of_[number(stage_at(d, step), step.micro_batch, step.phase)] = d;
      }
    }
  }

  std::optional<OrderFault> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t d = 0; d < next_.size(); ++d) {
        while (next_[d] < order_.devices[d].size() && !waiting_at(d)) {
          finish_piece(d);
          moved = true;
        }
      }
    }
    for (std::size_t d = 0; d < next_.size(); ++d) {
      if (next_[d] < order_.devices[d].size()) return deadlock(d);
    }
    return std::nullopt;
  }

 private:
  /// A step that cannot start, and the number of what it waits for.
  struct Stuck {
    WaitingStep step;
    std::size_t needs = 0;
  };

  [[nodiscard]] std::size_t stage_at(std::size_t device, const ComputeStep& step) const {
    return stage_of_[device * static_cast<std::size_t>(order_.chunks()) +
                     static_cast<std::size_t>(step.chunk)];
  }
  [[nodiscard]] std::size_t number(std::size_t stage, int micro_batch, Phase phase) const {
    const std::size_t row = stage * static_cast<std::size_t>(order_.micro_batches);
    return (row + static_cast<std::size_t>(micro_batch)) * 3 + static_cast<std::size_t>(phase);
  }
  [[nodiscard]] std::span<const ComputeStep> head(std::size_t d) const {
    const std::span<const ComputeStep> steps = order_.devices[d];
    return steps.subspan(next_[d], piece_end(steps, next_[d]) - next_[d]);
  }

  /// What a step needs, by number; kNowhere: nothing.
  [[nodiscard]] std::array<std::size_t, 2> inputs(std::size_t stage,
                                                  const ComputeStep& step) const {
    const int i = step.micro_batch;
    if (step.phase == Phase::WeightGradient) return {number(stage, i, Phase::Backward), kNowhere};
    const auto from = order_.neighbour(stage, step.phase == Phase::Forward ? -1 : 1);
    const std::size_t passed_on = from ? number(*from, i, step.phase) : kNowhere;
    if (step.phase == Phase::Forward) return {passed_on, kNowhere};
    return {passed_on, number(stage, i, Phase::Forward)};
  }

  /// The first step of a device's next piece that lacks an input; those made within the piece count
  /// as there.
  [[nodiscard]] std::optional<Stuck> waiting_at(std::size_t d) const {
    std::array<std::size_t, 8> within{};
    std::size_t made = 0;
    for (const ComputeStep& step : head(d)) {
      const std::size_t stage = stage_at(d, step);
      for (const std::size_t needed : inputs(stage, step)) {
        if (needed == kNowhere || done_[needed]) continue;
        const auto end = within.begin() + static_cast<std::ptrdiff_t>(made);
        if (std::find(within.begin(), end, needed) != end) continue;
        return Stuck{{static_cast<int>(d), stage, step, WhyWaits::Input}, needed};
      }
      if (made < within.size()) within[made++] = number(stage, step.micro_batch, step.phase);
    }
    return std::nullopt;
  }

  void finish_piece(std::size_t d) {
    const auto piece = head(d);
    for (const ComputeStep& step : piece) {
      done_[number(stage_at(d, step), step.micro_batch, step.phase)] = true;
    }
    next_[d] += piece.size();
  }

  [[nodiscard]] WaitingStep step_of(std::size_t number) const {
    const std::size_t stage = number / 3 / static_cast<std::size_t>(order_.micro_batches);
    const auto micro_batch =
        static_cast<int>(number / 3 % static_cast<std::size_t>(order_.micro_batches));
    const ComputeStep step{order_.pipeline[stage].chunk, micro_batch,
                           static_cast<Phase>(number % 3)};
    return {static_cast<int>(device_of_[number]), stage, step, WhyWaits::Sequence};
  }

  /// From device to device along what each waits for, until one comes again.
  [[nodiscard]] OrderFault deadlock(std::size_t start) const {
    std::vector<std::size_t> entered(next_.size(), kNowhere);
    std::vector<WaitingStep> path;
    std::size_t device = start;
    while (entered[device] == kNowhere) {
      entered[device] = path.size();
      const auto stuck = waiting_at(device);
      PLANSEARCH_CHECK(stuck.has_value());
      path.push_back(stuck->step);
      path.back().step.joined = false;
      device = device_of_[stuck->needs];
      // What it waits for comes later in that device's list than what the device is stuck at.
      const auto there = waiting_at(device);
      PLANSEARCH_CHECK(there.has_value());
      const auto& blocked = there->step;
      if (number(blocked.stage, blocked.step.micro_batch, blocked.step.phase) != stuck->needs) {
        path.push_back(step_of(stuck->needs));
      }
    }
    path.erase(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(entered[device]));
    OrderFault fault{OrderFaultKind::Deadlock, "the order waits for itself:", std::move(path)};
    for (std::size_t i = 0; i < fault.cycle.size(); ++i) {
      const WaitingStep& next = fault.cycle[(i + 1) % fault.cycle.size()];
      const bool input = fault.cycle[i].because == WhyWaits::Input;
      fault.detail += std::string(i == 0 ? "" : ",") + " device " +
                      std::to_string(fault.cycle[i].device) + ": " + name_of(fault.cycle[i]) +
                      (input ? " needs " : " is behind ") + name_of(next);
    }
    return fault;
  }

  const ComputeOrder& order_;
  std::vector<std::size_t> next_;      ///< by device
  std::vector<std::size_t> stage_of_;  ///< by device and chunk
  std::vector<bool> done_;             ///< by number
  std::vector<std::size_t> device_of_;
};

}  // namespace

std::optional<OrderFault> check_order(const ComputeOrder& order) {
  constexpr std::size_t kMostNamed = 5;
  const std::vector<std::string> faults = order_faults(order);
  if (faults.empty()) return Runner(order).run();
  OrderFault fault{OrderFaultKind::Incomplete, faults.front(), {}};
  for (std::size_t i = 1; i < std::min(faults.size(), kMostNamed); ++i) {
    fault.detail += "; " + faults[i];
  }
  if (faults.size() > kMostNamed) {
    fault.detail += "; and " + std::to_string(faults.size() - kMostNamed) + " more";
  }
  return fault;
}

std::optional<MemoryFault> check_memory(const ComputeOrder& order, const Timeline& timeline,
                                        int most_chunks) {
  const Phase last =
      order.weight_gradients == WeightGradients::Separate ? Phase::WeightGradient : Phase::Backward;
  std::optional<MemoryFault> worst;
  std::vector<int> kept(order.devices.size(), 0);
  std::vector<bool> full(order.devices.size(), false);
  for (const TimelineEntry& entry : timeline.entries) {  // by device and then by start
    int& count = kept[static_cast<std::size_t>(entry.device)];
    if (entry.step.phase == last) --count;
    if (entry.step.phase != Phase::Forward) continue;
    if (++count <= most_chunks || full[static_cast<std::size_t>(entry.device)]) continue;
    full[static_cast<std::size_t>(entry.device)] = true;
    if (worst && worst->time <= entry.start) continue;
    worst = MemoryFault{entry.device, entry.start, entry.step, count};
  }
  return worst;
}

}  // namespace plansearch
