// SPDX-License-Identifier: Apache-2.0
// Computes:   orders by list scheduling.
// Source:     list scheduling (Graham, 1969); the switches are described in list_rules.hpp.
// Assumes:    equal stages; messages do not queue.
// Units:      ticks; chunks.
// Checked by: tests/unit/schedule/orders/zb_auto_test.cpp
#include "schedule/orders/list_scheduling.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

class Lists {
 public:
  Lists(const PipelineShape& shape, const UniformTimes& times, const ListScheduling& rule)
      : shape_(shape),
        times_(times),
        rule_(rule),
        order_(empty_order(shape)),
        devices_(static_cast<std::size_t>(shape.stages)),
        stages_(order_.pipeline.size()) {
    order_.devices.resize(devices_.size());
    for (std::size_t k = 0; k < stages_.size(); ++k) {
      devices_[device_of(k)].stages.push_back(k);
      for (auto& ends : stages_[k].ends) ends.reserve(static_cast<std::size_t>(micro_batches()));
    }
  }

  ComputeOrder run() {
    std::size_t left = stages_.size() * static_cast<std::size_t>(micro_batches()) * kPhases;
    events_.push(0);
    while (left > 0) {
      PLANSEARCH_CHECK(!events_.empty());
      now_ = events_.top();
      while (!events_.empty() && events_.top() == now_) events_.pop();
      for (std::size_t d = devices_.size(); d-- > 0;) {
        if (devices_[d].free > now_) continue;
        if (const auto choice = choose(devices_[d])) {
          start(d, *choice);
          --left;
        }
      }
    }
    return std::move(order_);
  }

 private:
  static constexpr std::size_t kPhases = 3;
  struct Stage {
    std::vector<Ticks> ends[kPhases];  ///< by phase and micro-batch, of those that have started
    [[nodiscard]] int count(Phase phase) const {
      return static_cast<int>(ends[static_cast<std::size_t>(phase)].size());
    }
  };
  struct Device {
    std::vector<std::size_t> stages;  ///< in the order they are passed
    Ticks free = 0;
    int weights = 0;  ///< run so far, all chunks
  };
  struct Choice {
    std::size_t stage = 0;
    Phase phase = Phase::Forward;
  };

  [[nodiscard]] int micro_batches() const { return shape_.micro_batches; }
  [[nodiscard]] std::size_t device_of(std::size_t k) const {
    return static_cast<std::size_t>(order_.pipeline[k].device);
  }
  [[nodiscard]] Ticks length(Phase phase) const {
    if (phase == Phase::Forward) return times_.forward;
    return phase == Phase::Backward ? times_.backward : times_.weight;
  }

  /// When the input of the stage's next piece is there; nothing where it has not been started.
  [[nodiscard]] std::optional<Ticks> arrival(std::size_t k, Phase phase) const {
    const auto i = static_cast<std::size_t>(stages_[k].count(phase));
    if (i >= static_cast<std::size_t>(micro_batches())) return std::nullopt;
    const auto ended = [&](std::size_t stage, Phase what) -> std::optional<Ticks> {
      const auto& ends = stages_[stage].ends[static_cast<std::size_t>(what)];
      if (i >= ends.size()) return std::nullopt;
      return ends[i] + (device_of(stage) == device_of(k) ? 0 : times_.transfer);
    };
    if (phase == Phase::WeightGradient) return ended(k, Phase::Backward);
    const auto from = order_.neighbour(k, phase == Phase::Forward ? -1 : 1);
    if (from) return ended(*from, phase);
    return phase == Phase::Forward ? std::optional<Ticks>(0) : ended(k, Phase::Forward);
  }

  [[nodiscard]] bool fits(const Device& device, std::size_t k) const {
    const Stage& stage = stages_[k];
    const int ahead = stage.count(Phase::Forward) - stage.count(Phase::Backward);
    const auto way = static_cast<int>(stages_.size() - k);
    if (rule_.ahead == Ahead::TwiceTheWay && ahead >= 2 * way - 1) return false;
    if (k != device.stages.front()) return true;  // room was kept for it
    const int reserved = shape_.chunks * stage.count(Phase::Forward) - device.weights;
    return reserved + shape_.chunks <= shape_.cap() * shape_.chunks;
  }

  /// Which piece a device runs now. Notes what is about to arrive.
  [[nodiscard]] std::optional<Choice> choose(const Device& device) const {
    std::optional<Choice> forward, backward, weight;
    std::optional<Ticks> next;
    const auto consider = [&](std::size_t k, Phase phase, std::optional<Choice>& slot) {
      const auto at = arrival(k, phase);
      if (!at) return;
      if (*at <= now_) {
        slot = Choice{k, phase};
      } else if (phase != Phase::WeightGradient) {
        next = std::min(next.value_or(*at), *at);
      }
    };
    for (const std::size_t k : device.stages) {
      if (fits(device, k)) consider(k, Phase::Forward, forward);  // the furthest along
      if (!backward) consider(k, Phase::Backward, backward);      // the one nearest to its end
      if (!weight) consider(k, Phase::WeightGradient, weight);
    }
    const auto& first = rule_.prefer == Prefer::Backward ? backward : forward;
    const auto& second = rule_.prefer == Prefer::Backward ? forward : backward;
    if (first) return first;
    if (second) return second;
    const bool late = rule_.filler == Filler::WhereItFits && next && *next < now_ + times_.weight;
    return late ? std::nullopt : weight;
  }

  void start(std::size_t d, const Choice& choice) {
    Device& device = devices_[d];
    Stage& stage = stages_[choice.stage];
    device.free = now_ + length(choice.phase);
    const int i = stage.count(choice.phase);
    stage.ends[static_cast<std::size_t>(choice.phase)].push_back(device.free);
    if (choice.phase == Phase::WeightGradient) ++device.weights;
    order_.devices[d].push_back({order_.pipeline[choice.stage].chunk, i, choice.phase});
    events_.push(device.free);
    if (times_.transfer > 0) events_.push(device.free + times_.transfer);
  }

  const PipelineShape& shape_;
  const UniformTimes& times_;
  const ListScheduling& rule_;
  ComputeOrder order_;
  std::vector<Device> devices_;
  std::vector<Stage> stages_;
  std::priority_queue<Ticks, std::vector<Ticks>, std::greater<>> events_;
  Ticks now_ = 0;
};

}  // namespace

ComputeOrder list_order(const PipelineShape& shape, const UniformTimes& times,
                        const ListScheduling& rule) {
  return Lists(shape, times, rule).run();
}

ComputeOrder split(ComputeOrder order) {
  order.weight_gradients = WeightGradients::Separate;
  for (auto& steps : order.devices) {
    std::vector<ComputeStep> spelled;
    for (const ComputeStep& step : steps) {
      spelled.push_back(step);
      if (step.phase != Phase::Backward) continue;
      spelled.push_back({step.chunk, step.micro_batch, Phase::WeightGradient, true});
    }
    steps = std::move(spelled);
  }
  return order;
}

}  // namespace plansearch
