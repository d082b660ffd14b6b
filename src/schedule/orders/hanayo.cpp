// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of Hanayo's wave pipelines.
// Source:     Liu et al., Hanayo (SC 2023); the rule of choice is ours: backwards first, then the
//             forward that is furthest along.
// Assumes:    order fixed by the clock of equal pieces; as many micro-batches in flight as stages.
// Units:      clock ticks of one piece.
// Checked by: tests/unit/schedule/orders/hanayo_test.cpp
#include <algorithm>
#include <optional>

#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Lets every device of a pipeline of equal pieces take what is there, clock tick by clock tick.
class Clock {
 public:
  explicit Clock(const PipelineShape& shape)
      : shape_(shape),
        order_(empty_order(shape)),
        forwards_(order_.pipeline.size(), 0),
        backwards_(order_.pipeline.size(), 0),
        stages_(static_cast<std::size_t>(shape.stages)) {
    order_.devices.resize(stages_.size());
    for (std::size_t k = 0; k < order_.pipeline.size(); ++k) {
      stages_[static_cast<std::size_t>(order_.pipeline[k].device)].push_back(k);
    }
  }

  ComputeOrder run() {
    while (backwards_.front() < shape_.micro_batches) tick();
    return std::move(order_);
  }

 private:
  struct Choice {
    std::size_t stage;
    Phase phase;
  };

  /// What had ended before the tick decides for all devices.
  void tick() {
    std::vector<std::optional<Choice>> choices;
    for (const auto& stages : stages_) choices.push_back(choose(stages));
    for (std::size_t d = 0; d < choices.size(); ++d) {
      if (!choices[d]) continue;
      const auto [stage, phase] = *choices[d];
      int& count = phase == Phase::Forward ? forwards_[stage] : backwards_[stage];
      order_.devices[d].push_back({order_.pipeline[stage].chunk, count++, phase});
    }
  }

  [[nodiscard]] std::optional<Choice> choose(const std::vector<std::size_t>& stages) const {
    for (const std::size_t k : stages) {
      const bool last = k + 1 == order_.pipeline.size();
      if (backwards_[k] < (last ? forwards_[k] : backwards_[k + 1])) {
        return Choice{k, Phase::Backward};
      }
    }
    for (auto k = stages.rbegin(); k != stages.rend(); ++k) {
      const int limit = *k == 0 ? std::min(shape_.micro_batches, backwards_[0] + shape_.stages)
                                : forwards_[*k - 1];
      if (forwards_[*k] < limit) return Choice{*k, Phase::Forward};
    }
    return std::nullopt;
  }

  const PipelineShape& shape_;
  ComputeOrder order_;
  std::vector<int> forwards_;                     ///< done, by virtual stage
  std::vector<int> backwards_;                    ///< done, by virtual stage
  std::vector<std::vector<std::size_t>> stages_;  ///< of a device, in the order they are passed
};

ComputeOrder hanayo_order(const PipelineShape& shape) {
  return Clock(shape).run();
}

std::optional<ShapeFault> odd_chunks(const PipelineShape& shape) {
  if (shape.chunks % 2 == 0) return std::nullopt;
  return ShapeFault{ShapeField::Chunks, shape.chunks, {2, 2}};
}

}  // namespace

Schedule hanayo_schedule() {
  Schedule row;
  row.name = "hanayo";
  row.aliases = {"wave"};
  row.summary =
      "waves there and back over the devices, two chunks each: 1f1b's bubble over 2 waves";
  row.needs = "an even number of chunks";
  row.placement = &snake_placement();
  row.fewest_stages = 2;
  row.chunks = {2, std::nullopt};
  row.order = hanayo_order;
  row.fault = odd_chunks;
  return row;
}

}  // namespace plansearch
