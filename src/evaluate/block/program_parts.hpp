// SPDX-License-Identifier: Apache-2.0
// Private to block_program.cpp: the steps of a pass, its messages by where they stand, and the
// buffers of the builder.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "evaluate/block/block_program.hpp"
#include "plansearch/fixed_vector.hpp"

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

/// The messages that travel while one launch runs.
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
  /// `visit_all` calls its argument with every message of a block and its senders.
  template <typename VisitAll>
  void assign(std::size_t operators, VisitAll visit_all) {
    happening_.clear();
    travels_ = false;
    first_.assign(operators + 2, 0);
    visit_all([&](const PhaseMessage& message, Senders senders) {
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

namespace plansearch::block_program {

/// Half of an operator in one part of a pass: what comes before its kernels, or they and the rest.
struct Step {
  enum class Part : std::uint8_t { Forward, Recompute, Backward };
  Part part = Part::Forward;
  Side side = Side::Before;
  std::size_t op = 0;
};

/// Lists the steps of a pass in order: backward from the last operator on.
inline void list_steps(BlockPass pass, Recompute recompute, std::size_t operators,
                       std::vector<Step>& steps) {
  const auto list = [&](Step::Part part) {
    for (std::size_t i = 0; i < operators; ++i) {
      const std::size_t op = part == Step::Part::Backward ? operators - 1 - i : i;
      steps.push_back({part, Side::Before, op});
      steps.push_back({part, Side::After, op});
    }
  };
  if (pass == BlockPass::Forward || pass == BlockPass::Joined) list(Step::Part::Forward);
  if (pass == BlockPass::Forward) return;
  if (pass != BlockPass::WeightGradient && recompute != Recompute::None) {
    list(Step::Part::Recompute);
  }
  list(Step::Part::Backward);
}

/// The kernel time that shares of messages may still hide behind, by part of a pass.
struct HidingRoom {
  using Windows = FixedVector<Seconds*, 4>;
  std::array<Seconds, 3> kernels;
  std::array<Seconds, 3> idle_cards;  ///< while kernels wait for messages inside a node

  [[nodiscard]] Seconds& idle(Step::Part part) {
    return idle_cards[static_cast<std::size_t>(part)];
  }

  /// Messages that one block needs in backward travel beside all of another's, with recomputation.
  [[nodiscard]] Windows around(Step::Part part, const PhaseMessage& message) {
    Windows windows{&kernels[static_cast<std::size_t>(part)]};
    if (!is_posted_ahead(message)) return windows;
    const bool back = part == Step::Part::Backward;
    const Step::Part other = back ? Step::Part::Recompute : Step::Part::Backward;
    const bool forward = part == Step::Part::Forward;
    if (!forward) windows.push_back(&kernels[static_cast<std::size_t>(other)]);
    if (!message.between_nodes) return windows;
    windows.push_back(&idle(part));
    if (!forward) windows.push_back(&idle(other));
    return windows;
  }

  [[nodiscard]] static Seconds sum(const Windows& windows) {
    Seconds all;
    for (const Seconds* window : windows) all += *window;
    return all;
  }
  static void fill(const Windows& windows, Seconds hidden) {
    for (Seconds* window : windows) {
      const Seconds here = std::min(hidden, *window);
      *window -= here;
      hidden -= here;
    }
  }
};

/// A message of parameters that is posted ahead of its use.
struct Gather {
  std::size_t instruction = 0;
  std::size_t use = 0;  ///< the kernel before the one that reads it
  int ahead = 1;
};

/// Where one piece of the micro-batch stands.
struct Turn {
  std::optional<std::size_t> entry;   ///< a kernel without time before its first one
  std::vector<std::size_t> held;      ///< messages that it goes on after
  std::vector<std::size_t> results;   ///< input gradients on their way
  std::vector<std::size_t> operands;  ///< of its next weight gradient

  void clear() {
    entry.reset();
    held.clear();
    results.clear();
    operands.clear();
  }
};

/// Messages of one direction of parameters over one set of axes wait for each other.
struct MessageQueue {
  AxisSet axes;
  bool parameters = false;
  bool operator==(const MessageQueue&) const = default;
};

/// Buffers of one thread; no allocation once they have grown.
struct Scratch {
  MessageList list;
  std::vector<Step> steps;
  std::vector<Turn> turns;  ///< by piece
  std::vector<Gather> gathers;
  std::vector<const PhaseMessage*> served;
  std::vector<MessageQueue> streams;
  std::vector<std::size_t> delayed;  ///< operators whose weight gradient has not run
};

}  // namespace plansearch::block_program
