// SPDX-License-Identifier: Apache-2.0
// Computes: the convex front of time and bytes of sequences on one tensor group.
// Source: sums at a price of bytes (partition_planner.hpp), the price of the line between two
//         points.
// Assumes: corners of the convex front stand for all of it.
// Units: seconds per micro-batch, bytes.
// Checked by: tests/unit/search/partition_planner_test.cpp
#include "search/strategies/partition/partition_planner.hpp"

namespace plansearch {
namespace {

/// Points closer than this share in time, or in bytes, count as one.
constexpr double kCloseEnough = 0.01;
/// A price of bytes beside which time hardly matters, in sums for all of them.
constexpr double kBytesAlone = 1e3;

struct Front {
  const PartitionPlanner& planner;
  Recompute level;
  Rings rings;

  [[nodiscard]] std::optional<PartitionPlan> smallest(const PartitionPlan& fastest) const {
    auto found = planner.best(level, rings, kBytesAlone * fastest.sum.value() / fastest.bytes);
    if (found && found->bytes >= fastest.bytes) return std::nullopt;
    return found;
  }

  /// Where a byte costs what it does on the line between two points, the least sum is one of them,
  /// or a corner below the line.
  [[nodiscard]] std::optional<PartitionPlan> between(const PartitionPlan& fast,
                                                     const PartitionPlan& small) const {
    const bool close = small.bytes >= fast.bytes * (1.0 - kCloseEnough) ||
                       small.sum <= fast.sum * (1.0 + kCloseEnough);
    if (close) return std::nullopt;
    const double price = (small.sum - fast.sum).value() / (fast.bytes - small.bytes);
    auto corner = planner.best(level, rings, price);
    if (!corner) return std::nullopt;
    const double line = fast.sum.value() + price * fast.bytes;
    const double below = line - corner->sum.value() - price * corner->bytes;
    if (below <= kCloseEnough * kCloseEnough * line) return std::nullopt;
    return corner;
  }

  void add_between(const PartitionPlan& fast, const PartitionPlan& small,
                   std::vector<PartitionPlan>& found) const {
    const auto corner = between(fast, small);
    if (!corner) return;
    found.push_back(*corner);
    add_between(fast, *corner, found);
    add_between(*corner, small, found);
  }
};

}  // namespace

std::vector<PartitionPlan> sequence_front(const PartitionPlanner& planner, Recompute level,
                                          Rings rings) {
  const Front front{planner, level, rings};
  const auto fastest = planner.best(level, rings, 0.0);
  if (!fastest) return {};
  std::vector<PartitionPlan> found{*fastest};
  if (const auto smallest = front.smallest(*fastest)) {
    found.push_back(*smallest);
    front.add_between(*fastest, *smallest, found);
  }
  return found;
}

std::optional<PartitionPlan> fastest_with_room(
    const PartitionPlanner& planner, Recompute level, Rings rings, const PartitionPlan& fastest,
    const std::function<bool(const PartitionPlan&)>& has_room) {
  const Front front{planner, level, rings};
  PartitionPlan fast = fastest;
  auto small = front.smallest(fast);
  if (!small || !has_room(*small)) return std::nullopt;
  while (const auto corner = front.between(fast, *small)) {
    (has_room(*corner) ? *small : fast) = *corner;
  }
  return small;
}

}  // namespace plansearch
