// SPDX-License-Identifier: Apache-2.0
// Random pipelines, and a simulator as plain as can be to compare the fast ones with.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "schedule/order/compute_order.hpp"
#include "schedule/simulation/simulator.hpp"
#include "support/schedules.hpp"

namespace plansearch::testing {

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  /// Both ends included; the same on every platform.
  int between(int low, int high) {
    return low + static_cast<int>(engine_() % static_cast<unsigned>(high - low + 1));
  }
  Ticks ticks(Ticks low, Ticks high) {
    return low + static_cast<Ticks>(engine_() % static_cast<unsigned long>(high - low + 1));
  }

 private:
  std::mt19937 engine_;
};

/// GPipe, 1F1B or interleaved with up to 8 stages; interleaved groups are full and of `stages`.
inline PipelineShape random_shape(Dice& dice, int most_rounds) {
  PipelineShape shape;
  shape.schedule = static_cast<ScheduleId>(dice.between(0, 2));
  shape.stages = dice.between(1, 8);
  shape.micro_batches = dice.between(1, 8 * most_rounds);
  if (shape.schedule == test::kInterleaved) {
    shape.stages = std::max(shape.stages, 2);
    shape.chunks = dice.between(2, 4);
    shape.micro_batches = shape.stages * dice.between(1, most_rounds);
  }
  if (dice.between(0, 3) == 0) shape.transfers = TransferMode::Blocking;
  return shape;
}

/// Durations up to `scale`; transfers up to half of it, sometimes up to twice as long.
inline PipelineDurations random_durations(Dice& dice, const PipelineShape& shape, Ticks scale) {
  PipelineDurations times = uniform_durations(shape, {});
  const Ticks longest_transfer = dice.between(0, 3) == 0 ? 2 * scale : scale / 2;
  for (auto* row : {&times.forward, &times.backward}) {
    for (Ticks& time : *row) time = dice.ticks(scale / 3, scale);
  }
  for (auto* row : {&times.activation_transfer, &times.gradient_transfer}) {
    for (Ticks& time : *row) time = dice.ticks(0, longest_transfer);
  }
  return times;
}

/// Runs an order by looking again and again for a device whose next step has its input.
class PlainSimulator {
 public:
  PlainSimulator(const ComputeOrder& order, const PipelineTimes& times, TransferMode mode)
      : order_(order), times_(times), mode_(mode), free_(order.devices.size(), 0) {}

  /// Nothing when no device can go on before all is done.
  std::optional<PipelineResult> run() {
    PipelineResult result;
    result.devices.resize(order_.devices.size());
    std::vector<std::size_t> next(order_.devices.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t d = 0; d < next.size(); ++d) {
        while (next[d] < order_.devices[d].size() &&
               step(static_cast<int>(d), order_.devices[d][next[d]], next[d] == 0,
                    result.devices[d])) {
          ++next[d];
          moved = true;
        }
      }
    }
    for (std::size_t d = 0; d < next.size(); ++d) {
      if (next[d] < order_.devices[d].size()) return std::nullopt;
      result.devices[d].last_end = free_[d];
      result.makespan = std::max(result.makespan, free_[d]);
    }
    return result;
  }

 private:
  struct Arrival {
    Ticks at = 0;
    Ticks made = 0;
  };
  using Key = std::tuple<std::size_t, int, Phase>;

  bool step(int device, const ComputeStep& what, bool first, DeviceUse& use) {
    const std::size_t k = order_.virtual_stage(device, what.chunk);
    const bool forward = what.phase == Phase::Forward;
    const bool has_source = forward ? k > 0 : k + 1 < order_.pipeline.size();
    const bool sends = forward ? k + 1 < order_.pipeline.size() : k > 0;
    Arrival input;
    if (has_source) {
      const auto found = arrivals_.find({forward ? k - 1 : k + 1, what.micro_batch, what.phase});
      if (found == arrivals_.end()) return false;
      input = found->second;
    } else if (!forward && !done_.contains({k, what.micro_batch, Phase::Forward})) {
      return false;
    }
    Ticks& free = free_[static_cast<std::size_t>(device)];
    const Ticks start = std::max(free, input.at);
    const Ticks work = forward ? times_.forward[k] : times_.backward[k];
    use.exposed_transfer += std::min(start - free, input.at - input.made);
    use.busy += work;
    if (first) use.first_start = start;
    const Ticks made = start + work;
    free = made;
    done_[{k, what.micro_batch, what.phase}] = made;
    if (!sends) return true;
    const Ticks transfer =
        forward ? times_.activation_transfer[k] : times_.gradient_transfer[k - 1];
    Ticks& line = lines_[{device, what.phase}];
    line = std::max(line, made) + transfer;
    arrivals_[{k, what.micro_batch, what.phase}] = {line, made};
    if (mode_ == TransferMode::Blocking) {
      use.exposed_transfer += transfer;
      free = line;
    }
    return true;
  }

  const ComputeOrder& order_;
  PipelineTimes times_;
  TransferMode mode_;
  std::vector<Ticks> free_;
  std::map<std::pair<int, Phase>, Ticks> lines_;
  std::map<Key, Arrival> arrivals_;
  std::map<Key, Ticks> done_;
};

inline std::string describe(const PipelineShape& shape) {
  return "schedule " + std::string(to_text(shape.schedule)) + ", p " +
         std::to_string(shape.stages) + ", m " + std::to_string(shape.micro_batches) + ", v " +
         std::to_string(shape.chunks) + ", transfers " +
         std::to_string(static_cast<int>(shape.transfers));
}

}  // namespace plansearch::testing
