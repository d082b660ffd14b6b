// SPDX-License-Identifier: Apache-2.0
// Computes:   the order in which devices take equal pieces that are there.
// Source:     our rule of choice for schedules whose papers draw the order: see the files that use
//             it.
// Assumes:    order fixed by the clock of equal pieces.
// Units:      clock ticks of one piece.
// Checked by: tests/unit/schedule/orders/hanayo_test.cpp, chimera_test.cpp
#include "schedule/orders/clock.hpp"
#include "schedule/table.hpp"

#include <algorithm>
#include <optional>

namespace plansearch {
namespace {

class Clock {
 public:
  Clock(const PipelineShape& shape, int in_flight)
      : in_flight_(in_flight),
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
    const std::size_t all =
        order_.pipeline.size() * static_cast<std::size_t>(order_.micro_batches_per_replica()) * 2;
    for (std::size_t done = 0; done < all;) done += tick();
    return std::move(order_);
  }

 private:
  struct Choice {
    std::size_t stage;
    Phase phase;
  };

  /// Pieces that had ended before the tick decide for all devices. Returns how many ran.
  std::size_t tick() {
    std::vector<std::optional<Choice>> choices;
    for (const auto& stages : stages_) choices.push_back(choose(stages));
    std::size_t ran = 0;
    for (std::size_t d = 0; d < choices.size(); ++d) {
      if (!choices[d]) continue;
      const auto [stage, phase] = *choices[d];
      int& count = phase == Phase::Forward ? forwards_[stage] : backwards_[stage];
      const int micro_batch = order_.first_micro_batch(stage) + count++;
      order_.devices[d].push_back({order_.pipeline[stage].chunk, micro_batch, phase});
      ++ran;
    }
    return ran;
  }

  [[nodiscard]] std::optional<Choice> choose(const std::vector<std::size_t>& stages) const {
    for (const std::size_t k : stages) {
      const bool last = !order_.neighbour(k, 1);
      if (backwards_[k] < (last ? forwards_[k] : backwards_[k + 1])) {
        return Choice{k, Phase::Backward};
      }
    }
    std::optional<Choice> best;
    std::size_t furthest = 0;
    const std::size_t length = order_.pipeline.size() / static_cast<std::size_t>(order_.replicas);
    for (const std::size_t k : stages) {
      const int limit = order_.neighbour(k, -1) ? forwards_[k - 1]
                                                : std::min(order_.micro_batches_per_replica(),
                                                           backwards_[k] + in_flight_);
      if (forwards_[k] >= limit || (best && k % length < furthest)) continue;
      best = Choice{k, Phase::Forward};
      furthest = k % length;
    }
    return best;
  }

  int in_flight_;
  ComputeOrder order_;
  std::vector<int> forwards_;                     ///< done, by virtual stage
  std::vector<int> backwards_;                    ///< done, by virtual stage
  std::vector<std::vector<std::size_t>> stages_;  ///< of a device, in the order they are passed
};

}  // namespace

ComputeOrder clocked_order(const PipelineShape& shape, int in_flight) {
  return Clock(shape, in_flight).run();
}

}  // namespace plansearch
