// SPDX-License-Identifier: Apache-2.0
// Starts of blocks in a window that repeats, while they are chosen one by one; private to the
// search.
#pragma once

#include <optional>
#include <vector>

#include "schedule/window/block_plan.hpp"

namespace plansearch {

class WindowTable {
 public:
  WindowTable(const BlockPlan& plan, std::vector<std::optional<int>> caps, Ticks period);

  [[nodiscard]] Ticks period() const { return period_; }
  [[nodiscard]] const std::vector<NodeId>& order() const { return order_; }
  [[nodiscard]] const std::vector<Ticks>& starts() const { return starts_; }

  /// Starts of the next node that its devices are free at and its rules allow, the earliest first:
  /// of one period, as one more does not change which others are free.
  [[nodiscard]] std::vector<Ticks> choices() const;
  /// Places the next node. False where what is left cannot fit, in time or under the caps; the node
  /// is placed all the same.
  bool place(Ticks start);
  void remove_last();
  [[nodiscard]] bool complete() const { return placed_ == order_.size(); }

  /// Whether `choices` leaves out nothing that could make a window of this length.
  [[nodiscard]] bool exhaustive() const;

 private:
  struct Busy {
    Ticks from = 0;  ///< below the period
    Ticks length = 0;
    bool operator<(const Busy& other) const { return from < other.from; }
  };
  [[nodiscard]] bool is_free(NodeId node, Ticks start) const;
  [[nodiscard]] bool room_for_rest(std::size_t device) const;
  [[nodiscard]] bool fits_memory(std::size_t device);
  [[nodiscard]] Ticks slot_of(Ticks start) const { return start % period_; }
  void estimate_rest();

  const BlockPlan& plan_;
  std::vector<std::optional<int>> caps_;
  Ticks period_;
  std::vector<NodeId> order_;
  std::vector<std::vector<BeforeRule>> into_;     ///< by second node
  std::vector<std::vector<BeforeRule>> out_;      ///< by first node
  std::vector<std::vector<NodeId>> nodes_on_;     ///< by device, in the order
  std::vector<std::vector<Ticks>> longest_left_;  ///< by device and nodes placed
  std::vector<std::size_t> rank_;                 ///< of nodes in the order
  std::size_t placed_ = 0;
  std::vector<Ticks> starts_;            ///< of those not placed: the earliest
  std::vector<std::vector<Busy>> busy_;  ///< by device, by slot
};

}  // namespace plansearch
