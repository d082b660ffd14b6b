// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute orders of Hanayo's wave pipelines and Chimera's bidirectional ones.
// Source:     Liu et al., Hanayo (SC 2023); Li and Hoefler, Chimera (SC 2021): two replicas of the
//             network in opposite directions, half of the micro-batches each; units of p
//             micro-batches follow one another without a gap. The papers draw the orders; the rule
//             of choice is ours: backwards first, then the forward that is furthest along.
// Assumes:    order fixed by the clock of equal pieces; as many micro-batches in flight as stages,
//             of Chimera p / 2 per direction.
// Units:      clock ticks of one piece.
// Checked by: tests/unit/schedule/orders/hanayo_test.cpp, chimera_test.cpp
#include <algorithm>
#include <optional>

#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Every device takes a piece that is ready, clock tick by clock tick: backwards first, then the
/// forward that is furthest along. A replica of the network lets in at most `in_flight`
/// micro-batches at a time.
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

std::optional<ShapeFault> odd_chunks(const PipelineShape& shape) {
  if (shape.chunks % 2 == 0) return std::nullopt;
  return ShapeFault{ShapeField::Chunks, shape.chunks, {2, 2}};
}

std::optional<ShapeFault> odd_stages_or_part_of_a_unit(const PipelineShape& shape) {
  if (shape.stages % 2 != 0) return ShapeFault{ShapeField::Stages, shape.stages, {2, 2}};
  if (shape.micro_batches % shape.stages == 0) return std::nullopt;
  return ShapeFault{ShapeField::MicroBatches, shape.micro_batches, {shape.stages, shape.stages}};
}

}  // namespace

Schedule hanayo_schedule() {
  Schedule row;
  row.name = "hanayo";
  row.aliases = {"wave"};
  row.summary =
      "waves there and back over the devices, two chunks each: 1f1b's bubble over 2 waves";
  row.needs = "an even number of chunks";
  row.placement = &snake_mapping();
  row.fewest_stages = 2;
  row.chunks = {2, std::nullopt};
  row.chunks_per_wave = 2;
  row.order = [](const PipelineShape& shape) { return Clock(shape, shape.stages).run(); };
  row.fault = odd_chunks;
  row.repetition = [](const PipelineShape& shape) {
    return Repetition{shape.stages, shape.stages};
  };
  return row;
}

Schedule chimera_schedule() {
  Schedule row;
  row.name = "chimera";
  row.summary = "two replicas in opposite directions fill each other's bubble: weights twice";
  row.needs = "p even, m a multiple of p";
  row.placement = &bidirectional_mapping();
  row.fewest_stages = 2;
  row.order = [](const PipelineShape& shape) { return Clock(shape, shape.stages / 2).run(); };
  row.fault = odd_stages_or_part_of_a_unit;
  row.repetition = [](const PipelineShape& shape) {
    return Repetition{shape.stages, shape.stages};
  };
  return row;
}

}  // namespace plansearch
