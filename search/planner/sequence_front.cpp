// SPDX-License-Identifier: Apache-2.0
// Computes: the convex front of time and bytes of sequences on one tensor group.
// Source: sums at a price of bytes (sequence_planner.hpp), the price of the line between two
// points. Assumes: corners of the convex front stand for all of it. Units: seconds per micro-batch,
// bytes. Checked by: tests/unit/search/sequence_planner_test.cpp
#include "search/planner/sequence_front.hpp"

#include <utility>

namespace plansearch {
namespace {

/// Points closer than this share in time, or in bytes, are not told apart.
constexpr double kCloseEnough = 0.01;
/// A price of bytes beside which time hardly matters, in sums for all of them.
constexpr double kBytesAlone = 1e3;

struct Front {
  const SequencePlanner& planner;
  Recompute level;
  Rings rings;
  std::vector<SequencePlan> found;

  /// Where a byte costs what it does on the line between two points, the least sum is one of them,
  /// or a corner below the line.
  void add_between(const SequencePlan& fast, const SequencePlan& small) {
    const bool close = small.bytes >= fast.bytes * (1.0 - kCloseEnough) ||
                       small.sum <= fast.sum * (1.0 + kCloseEnough);
    if (close) return;
    const double price = (small.sum - fast.sum).value() / (fast.bytes - small.bytes);
    const auto corner = planner.best(level, rings, price);
    if (!corner) return;
    const double line = fast.sum.value() + price * fast.bytes;
    const double below = line - corner->sum.value() - price * corner->bytes;
    if (below <= kCloseEnough * kCloseEnough * line) return;
    found.push_back(*corner);
    add_between(fast, *corner);
    add_between(*corner, small);
  }
};

}  // namespace

std::vector<SequencePlan> sequence_front(const SequencePlanner& planner, Recompute level,
                                         Rings rings) {
  Front front{planner, level, rings, {}};
  const auto cheapest = planner.best(level, rings, 0.0);
  if (!cheapest) return {};
  front.found.push_back(*cheapest);
  const auto smallest =
      planner.best(level, rings, kBytesAlone * cheapest->sum.value() / cheapest->bytes);
  if (smallest && smallest->bytes < cheapest->bytes) {
    front.found.push_back(*smallest);
    front.add_between(*cheapest, *smallest);
  }
  return std::move(front.found);
}

}  // namespace plansearch
