// SPDX-License-Identifier: Apache-2.0
// Computes: a lower bound of the time that kernels of one micro-batch wait for messages.
// Source: a message that is waited for at once stops the kernels after it for as long as its share
//         does not hide (framework data: OverlapRule). What hides beside another micro-batch where
//         an order joins them is not waited for.
// Assumes: the time of a message is concave in its bytes: latencies, roots and lines, and minima of
//          them (cost/collective/): a chord between two sizes lies below it.
// Units: seconds.
// Checked by: tests/unit/evaluate/bound_test.cpp, least_waits_test.cpp
#include "evaluate/block/least_waits.hpp"

#include <algorithm>

#include "evaluate/block/block_program.hpp"
#include "evaluate/block/rank_load.hpp"
#include "plan/primitives/recompute.hpp"

namespace plansearch {
namespace {

bool is_waited_for(const PricingContext& context, const Communication& message, Overlap overlap,
                   bool joined) {
  const OverlapRule& rule = context.problem.framework->overlap[static_cast<std::size_t>(overlap)];
  const MessageWait wait = message.steps > 1 ? rule.wait_of_steps() : rule.wait;
  return wait == MessageWait::AtOnce && !(rule.joined && joined);
}

Seconds wait_for(const PricingContext& context, const PlacedNetwork& placed,
                 const Communication& message, double elements, double fullest,
                 DispatcherId dispatcher) {
  const PhaseMessage priced =
      price_message(context, placed.mesh, message, elements, fullest, dispatcher);
  return priced.time * (message.count * (1.0 - hidden_share(context, priced)));
}

/// Whether a recomputation of its operator sends the message once more.
bool is_repeated(const Communication& message) {
  return message.phase == DemandPhase::Forward && message.on_recompute == RecomputeGather::Repeated;
}

}  // namespace

BlockWaits least_waits(const PricingContext& context, const PlacedNetwork& placed,
                       std::size_t block, const RepeatedShares& repeated, int sequences,
                       WaitForm form) {
  const SelectiveRecompute& selective = context.problem.framework->selective;
  const double fullest = fullest_rank(*context.problem.network, placed.mesh, sequences);
  BlockWaits waits;
  for (const SequenceMessage& message : placed.blocks[block].messages) {
    const Communication& c = message.communication;
    const Overlap overlap = overlap_class(c);
    if (!is_waited_for(context, c, overlap, form.joined)) continue;
    const Seconds time =
        wait_for(context, placed, c, message.elements(sequences), fullest, form.dispatcher);
    (c.phase == DemandPhase::Forward ? waits.forward : waits.backward) += time;
    if (c.phase == DemandPhase::WeightGradient) waits.weight_gradient += time;
    for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
      const bool runs_again = repeated[level][c.operator_index] > 0.0 &&
                              sends_again(static_cast<Recompute>(level), selective);
      if (runs_again && is_repeated(c)) waits.recompute[level] += time;
    }
  }
  return waits;
}

Seconds exchange_time(const PricingContext& context, const PlacedNetwork& placed, std::size_t block,
                      int sequences, WaitForm form) {
  const double fullest = fullest_rank(*context.problem.network, placed.mesh, sequences);
  Seconds sum;
  for (const SequenceMessage& message : placed.blocks[block].messages) {
    const Communication& c = message.communication;
    if (!exchanges_tokens(c)) continue;
    const double elements = message.elements(sequences);
    sum += form.joined
               ? price_message(context, placed.mesh, c, elements, fullest, form.dispatcher).time *
                     c.count
               : wait_for(context, placed, c, elements, fullest, form.dispatcher);
  }
  return sum;
}

void BlockWaits::add(const BlockWaits& other, double copies) {
  forward += other.forward * copies;
  backward += other.backward * copies;
  weight_gradient += other.weight_gradient * copies;
  for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
    recompute[level] += other.recompute[level] * copies;
  }
}

}  // namespace plansearch
