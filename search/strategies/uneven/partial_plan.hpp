// SPDX-License-Identifier: Apache-2.0
// Stages that begin a plan, and the least step of plans that go on from there, without another walk
// over them.
#pragma once

#include <algorithm>
#include <vector>

#include "search/strategies/uneven/stage_catalog.hpp"

namespace plansearch {

/// Ticks are rounded: a bound this close below a time is none above it.
inline constexpr double kRounding = 1.0 - 1e-9;

/// Stages from the first one on; the last of them is here, those before it at `before`.
struct Partial {
  int catalog = 0;
  int before = -1;  ///< index of a partial plan
  int first = 0;    ///< layers of the last stage
  int last = -1;
  int devices = 0;  ///< of all its stages
  const PricedStage* stage = nullptr;
  StageTransfer incoming{};  ///< from the stage before, as if next to it
};
using Chain = std::vector<const Partial*>;  ///< the stages of a partial plan, first to last

/// Stages that begin a plan, as the bound of its step reads them: where the rest takes R from their
/// last output on, gradients are reduced at max(fixed, open + R).
struct Begun {
  Seconds head;  ///< until the last output
  Seconds fixed;
  Seconds open;
  Seconds after;
};

/// Time behind the last backward of a stage, without optimizers that wait for each other.
[[nodiscard]] inline Seconds end_of(const StagePrice& price, bool together) {
  return together ? price.reduction : price.reduction + price.after;
}

/// `together`: optimizers start when all gradients are reduced.
[[nodiscard]] inline Begun begun_by(const Chain& chain, int micro_batches, bool together) {
  Begun begun;
  Seconds head;  // until the first input of the stage
  for (std::size_t s = 0; s < chain.size(); ++s) {
    head += chain[s]->stage->price.forward + chain[s]->incoming.activation;
  }
  begun.head = head;
  Seconds fixed;  // the rest from the stage on is max(fixed, open + R)
  Seconds open;
  for (std::size_t s = chain.size(); s-- > 0;) {
    const StagePrice& price = chain[s]->stage->price;
    head -= price.forward;
    fixed = with_rest(price.both(), micro_batches, fixed);
    open += price.both();
    const Seconds end = head + end_of(price, together);
    begun.fixed = std::max(begun.fixed, end + fixed);
    begun.open = std::max(begun.open, end + open);
    begun.after = std::max(begun.after, price.after);
    const StageTransfer& incoming = chain[s]->incoming;
    head -= incoming.activation;
    fixed += incoming.activation + incoming.gradient;
    open += incoming.activation + incoming.gradient;
  }
  return begun;
}

/// `bound_of` of a plan that goes on so, but for rounding.
[[nodiscard]] inline Seconds bound_behind(const Begun& begun, const Partial& next, Seconds rest,
                                          int micro_batches, bool together) {
  const StagePrice& price = next.stage->price;
  rest = with_rest(price.both(), micro_batches, rest);
  Seconds reduced = begun.head + next.incoming.activation + rest + end_of(price, together);
  if (next.before >= 0) {
    rest += next.incoming.activation + next.incoming.gradient;
    reduced = std::max({reduced, begun.fixed, begun.open + rest});
  }
  const Seconds step = together ? reduced + std::max(begun.after, price.after) : reduced;
  return step * (kRounding * kRounding);
}

}  // namespace plansearch
