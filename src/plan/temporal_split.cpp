// SPDX-License-Identifier: Apache-2.0
#include "plan/temporal_split.hpp"

namespace plansearch {

double live_share(const TemporalSplit& split) {
  const bool one_at_a_time =
      split.order == PieceOrder::Sequential && split.recompute == PieceRecompute::Recompute;
  return one_at_a_time ? piece_share(split) : 1.0;
}

double piece_share(const TemporalSplit& split) {
  return 1.0 / split.pieces;
}

}  // namespace plansearch
