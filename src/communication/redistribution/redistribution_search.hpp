// SPDX-License-Identifier: Apache-2.0
// The cheapest sequence of single collectives between two layouts of plain cuts; not installed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "communication/redistribution/layout_graph.hpp"
#include "communication/redistribution/redistribution.hpp"
#include "communication/redistribution/redistribution_units.hpp"

namespace plansearch {

/// Whether digits may take part in one collective: one digit, or factors of one tensor group.
[[nodiscard]] bool one_group(const SliceDigit* first, const SliceDigit* last);
/// Digits that two cuts begin with alike.
[[nodiscard]] std::size_t common_prefix(const SliceDigits& a, const SliceDigits& b);

/// The cheapest moves from the start of a pattern to its goal, cuts and parts each straight to
/// where the goal has them. Keeps its buffers.
class RedistributionSearcher : private LayoutMoves {
 public:
  using Moves = std::vector<WayStep>;
  void run(const RedistributionPattern& pattern, Moves& moves);

 private:
  struct Node {
    LayoutState state;
    double cost = 0.0;
    double left = 0.0;  ///< at least
    std::uint32_t parent = 0;
    WayMove move;
  };
  /// Less comes first: the layout to which least was sent, or on whose paths least is sent in all.
  enum class Order : std::uint8_t { Sent, InAll };
  struct Open {
    double rank;
    std::uint32_t node;
  };
  static bool later(const Open& a, const Open& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.node > b.node;
  }
  [[nodiscard]] double rank_of(const Node& node) const {
    return order_ == Order::Sent ? node.cost : node.cost + node.left;
  }

  [[nodiscard]] std::uint32_t find_goal();
  void reach(const WayMove& move, const LayoutState& after) override;
  [[nodiscard]] std::uint32_t* place_of(const LayoutState& state);
  void grow();

  const RedistributionPattern* pattern_ = nullptr;
  Order order_ = Order::Sent;
  double limit_ = 0.0;  ///< dearer paths are left out
  std::vector<Node> nodes_;
  std::vector<Open> open_;             ///< a heap; entries of nodes that got cheaper are stale
  std::vector<std::uint32_t> places_;  ///< nodes by hash of their state, from 1; 0: none
  std::uint32_t here_number_ = 0;      ///< the node that is expanded
  double local_ = 0.0;
};

/// Keeps its buffers from one search to the next.
class RedistributionSearch {
 public:
  explicit RedistributionSearch(Remember remember = Remember::No)
      : RedistributionSearch(remember, std::make_shared<LayoutGraphs>(remember)) {}
  RedistributionSearch(Remember remember, std::shared_ptr<LayoutGraphs> graphs)
      : remember_(remember), graphs_(std::move(graphs)) {}
  [[nodiscard]] const std::shared_ptr<LayoutGraphs>& graphs() const { return graphs_; }

  /// Appends the steps. Both layouts are plain and have the same flat cut; parts that `to` has,
  /// `from` has too.
  void run(const TensorMove& move, std::vector<RedistributionStep>& steps);
  /// The same as for so many factors.
  void run(const TensorMove& move, WayFactors factors, std::vector<RedistributionStep>& steps);

 private:
  void write(const RedistributionSearcher::Moves& moves,
             std::vector<RedistributionStep>& steps) const;

  Remember remember_;
  RedistributionUnits units_;
  UnitRates rates_;
  std::shared_ptr<LayoutGraphs> graphs_;
  RedistributionSearcher search_;
  std::unordered_map<std::string, RedistributionSearcher::Moves> known_;  ///< by pattern
  std::string key_;
  RedistributionSearcher::Moves moves_;
};

}  // namespace plansearch
