// SPDX-License-Identifier: Apache-2.0
// Computes: a lower bound of the time that kernels of one micro-batch wait for messages.
// Source: a message that is waited for at once stops the kernels after it for as long as its share
//         does not hide (framework data: OverlapRule). One that is waited for where it is used
//         stops a piece that has no other beside it just as long (block_program.cpp: place): its
//         next kernels use it, but for input gradients, beside which weight gradients run. A
//         forward and a backward side by side wait for no exchange that the order joins, but last
//         as long as these are on their way.
// Assumes: the time of a message is concave in its bytes: latencies, roots and lines, and minima of
//          them (cost/collective/): a chord between two sizes lies below it.
// Units: seconds.
// Checked by: tests/unit/evaluate/bound_test.cpp, least_waits_test.cpp
#include "evaluate/block/least_waits.hpp"

#include <algorithm>
#include <optional>

#include "evaluate/block/block_program.hpp"
#include "plan/primitives/recompute.hpp"

namespace plansearch {
namespace {

bool is_waited_for(const OverlapRule& rule, const Communication& message) {
  return (message.steps > 1 ? rule.wait_of_steps() : rule.wait) == MessageWait::AtOnce;
}

bool is_of_parameters(const Communication& message) {
  return message.subject == Subject::Parameter || message.subject == Subject::Gradient;
}

/// Whether the piece goes on when its message has come, though others would not wait for it.
bool is_used_next(const Communication& message, Piece piece) {
  const bool late = message.phase == DemandPhase::InputGradient && message.side == Side::After;
  return piece.alone && message.steps == 1 && !is_of_parameters(message) && !late &&
         message.phase != DemandPhase::WeightGradient;
}

/// Whether weight gradients of its operator run beside it, and nothing else.
bool is_behind(const Communication& message, Piece piece) {
  return piece.alone && message.steps == 1 && !is_of_parameters(message) &&
         message.phase == DemandPhase::InputGradient && message.side == Side::After;
}

Seconds exposed(const PricingContext& context, const PhaseMessage& priced) {
  return priced.time * (priced.communication.count * (1.0 - hidden_share(context, priced)));
}

/// Messages over one set of axes follow each other.
class QueueTimes {
 public:
  void add(const Communication& message, Seconds time) {
    const auto queue = std::find_if(queues_.begin(), queues_.end(),
                                    [&](const Queue& known) { return known.axes == message.axes; });
    if (queue != queues_.end()) {
      queue->time += time;
    } else {
      queues_.push_back({message.axes, time});
    }
  }
  [[nodiscard]] Seconds longest() const {
    Seconds most;
    for (const Queue& queue : queues_) most = std::max(most, queue.time);
    return most;
  }

 private:
  struct Queue {
    AxisSet axes;
    Seconds time;
  };
  std::vector<Queue> queues_;
};

/// Whether a recomputation of its operator sends the message once more.
bool is_repeated(const Communication& message) {
  return message.phase == DemandPhase::Forward && message.on_recompute == RecomputeGather::Repeated;
}

}  // namespace

BlockWaits least_waits(const PricingContext& context, const PlacedNetwork& placed,
                       std::size_t block, const RepeatedShares& repeated, Piece piece,
                       DispatcherId dispatcher) {
  const SelectiveRecompute& selective = context.problem.framework->selective;
  std::optional<double> fullest;  // of exchanges of tokens alone
  BlockWaits waits;
  QueueTimes queues;
  std::optional<AxisSet> behind;  // messages over other axes may travel at the same time
  for (const SequenceMessage& message : placed.blocks()[block].messages) {
    const Communication& c = message.communication;
    const OverlapRule& rule = rule_of(context, overlap_class(c));
    const bool waited = is_waited_for(rule, c) || is_used_next(c, piece);
    const bool late = !waited && is_behind(c, piece) && behind.value_or(c.axes) == c.axes;
    if (!waited && !late && !rule.joined) continue;
    if (!fullest && exchanges_tokens(c)) {
      fullest = fullest_rank(*context.problem.network, placed.mesh, piece.sequences);
    }
    const PhaseMessage priced =
        price_message(context, placed.mesh, c, message.elements(piece.sequences),
                      fullest.value_or(1.0), dispatcher);
    const Seconds time = exposed(context, priced);
    if (late) {
      behind = c.axes;
      waits.behind += priced.time * c.count;
    }
    if (rule.joined) {
      queues.add(c, priced.time * c.count);
    } else if (waited) {
      waits.beside += time;
    }
    if (!waited) continue;
    (c.phase == DemandPhase::Forward ? waits.forward : waits.backward) += time;
    if (c.phase == DemandPhase::WeightGradient) waits.weight_gradient += time;
    for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
      const bool runs_again = repeated[level][c.operator_index] > 0.0 &&
                              sends_again(static_cast<Recompute>(level), selective);
      if (runs_again && is_repeated(c)) waits.recompute[level] += time;
    }
  }
  waits.exchange = queues.longest();
  return waits;
}

void NetworkWork::add(const NetworkWork& other, double copies) {
  forward += other.forward * copies;
  input_gradient += other.input_gradient * copies;
  weight_gradient += other.weight_gradient * copies;
  for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
    repeated[level] += other.repeated[level] * copies;
  }
}

void BlockWaits::add(const BlockWaits& other, double copies) {
  forward += other.forward * copies;
  backward += other.backward * copies;
  weight_gradient += other.weight_gradient * copies;
  behind += other.behind * copies;
  beside += other.beside * copies;
  exchange += other.exchange * copies;
  for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
    recompute[level] += other.recompute[level] * copies;
  }
}

}  // namespace plansearch
