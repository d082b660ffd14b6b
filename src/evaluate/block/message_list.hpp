// SPDX-License-Identifier: Apache-2.0
// Messages of a block by where they stand: before or after which operator, in which pass.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "evaluate/block/block_program.hpp"

namespace plansearch {

/// A message of one piece, or of all pieces together.
struct ListedMessage {
  const PhaseMessage* message = nullptr;
  bool once = false;  ///< parameters come before the first piece, gradients go after the last
};

/// The operators of one launch lie side by side; the first one has its time, and one that joins it
/// starts none.
[[nodiscard]] inline std::size_t end_of_launch(const Block& block, std::size_t op) {
  const auto& all = block.operators;
  const std::string& key = all[op].fused_key;
  if (key.empty()) return op + 1;
  if (op > 0 && all[op - 1].fused_key == key) return op;
  while (op < all.size() && all[op].fused_key == key) ++op;
  return op;
}

/// What travels while one launch runs.
inline constexpr std::size_t kMostTravelling = 24;
using Travelling = FixedVector<const Communication*, kMostTravelling>;

/// The most moves of one tensor, one after the other.
[[nodiscard]] inline double moves_in_a_row(const Travelling& travelling) {
  int most = 0;
  for (const Communication* one : travelling) {
    int moves = 0;
    for (const Communication* other : travelling) {
      const bool same = other->subject == one->subject && other->index == one->index;
      moves += same ? other->count : 0;
    }
    most = std::max(most, moves);
  }
  return most;
}

/// Messages of a pass by the operator and the side they stand at.
class MessageList {
 public:
  void assign(const BlockParts& parts) {
    happening_.clear();
    travels_ = false;
    first_.assign(parts.work.operators.size() + 2, 0);
    for_each_message(parts, [&](const PhaseMessage& message, Senders senders) {
      happening_.push_back({&message, senders == Senders::AllPieces});
      ++first_[message.communication.operator_index + 2];
      travels_ = travels_ || message.communication.steps > 1;
    });
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    all_.resize(happening_.size());
    for (const ListedMessage& listed : happening_) {
      all_[first_[listed.message->communication.operator_index + 1]++] = listed;
    }
  }

  /// Whether an operator runs in steps.
  [[nodiscard]] bool travels() const { return travels_; }

  template <typename Visit>
  void at(DemandPhase phase, std::size_t op, Side side, Visit visit) const {
    for (std::size_t i = first_[op]; i < first_[op + 1]; ++i) {
      const Communication& c = all_[i].message->communication;
      if (c.phase == phase && c.side == side) visit(all_[i]);
    }
  }

  /// The gather of the backward pass that brings what this gather of the forward pass brings.
  [[nodiscard]] const PhaseMessage* backward_gather(const PhaseMessage& forward) const {
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const ListedMessage& listed) {
      const Communication& c = listed.message->communication;
      return c.subject == Subject::Parameter && c.phase == DemandPhase::InputGradient &&
             c.index == forward.communication.index && c.axes == forward.communication.axes;
    });
    return found == all_.end() ? nullptr : found->message;
  }

 private:
  std::vector<ListedMessage> happening_;
  std::vector<ListedMessage> all_;  ///< by operator, then as they happen
  std::vector<std::size_t> first_;  ///< by operator: into `all_`
  bool travels_ = false;
};

}  // namespace plansearch
