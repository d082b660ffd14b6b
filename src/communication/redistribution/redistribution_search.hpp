// SPDX-License-Identifier: Apache-2.0
// The cheapest sequence of single collectives between two layouts of plain cuts; not installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "communication/redistribution/redistribution.hpp"
#include "communication/redistribution/redistribution_pattern.hpp"
#include "communication/redistribution/redistribution_units.hpp"

namespace plansearch {

/// Where cuts and parts of a sum go: to where the goal has them, those it begins with stay; or
/// anywhere.
enum class Landing : std::uint8_t { AtGoal, Anywhere };

/// So many factors of a tensor group have every sequence of steps tried on any mesh.
inline constexpr int kFewFactors = 2;

/// Shows every layout that one step makes of another.
class LayoutMoves {
 public:
  LayoutMoves() = default;
  LayoutMoves(const LayoutMoves&) = delete;
  LayoutMoves& operator=(const LayoutMoves&) = delete;

 protected:
  ~LayoutMoves() = default;
  /// The pattern must outlive the calls below.
  void set(const RedistributionPattern& pattern, Landing landing);
  void expand(const LayoutState& here);

 private:
  virtual void reach(const PathMove& move, const LayoutState& after) = 0;

  [[nodiscard]] std::uint32_t landing(std::size_t dim) const;
  void reduce_partials();
  void reduce(std::uint32_t units);
  void remove_cuts(std::size_t dim);
  void remove_cuts(std::size_t dim, int count);
  void slice(std::size_t dim);
  void permute();
  [[nodiscard]] bool is_blocked() const;
  void put_in_order();
  [[nodiscard]] int loose_slices(std::size_t dim) const;
  void rearrange(LayoutState& state, std::size_t dim, int left, std::uint32_t loose);
  void push_permutation(const LayoutState& after);
  void push(const PathMove& move);

  const RedistributionPattern* pattern_ = nullptr;
  bool directed_ = false;
  LayoutState here_;
  std::uint32_t held_ = 0;  ///< units that cut it
  LayoutState kept_;        ///< what stays of it
};

/// For all patterns of one shape: the same units in the same number of dimensions, the same parts.
class LayoutGraph : private LayoutMoves {
 public:
  /// A charge per step breaks ties toward fewer; far below what any real message sends. A share of
  /// the tensor.
  static constexpr double kStepCharge = 1e-12;

  /// Whether the graph is small enough: more units or dimensions have too many layouts.
  [[nodiscard]] static bool covers(const RedistributionPattern& pattern);
  /// The content of the graph, as bytes.
  static void put_shape(const RedistributionPattern& pattern, std::string& bytes);

  explicit LayoutGraph(const RedistributionPattern& shape);

  /// The least costs of bringing layouts to one goal: shares of the tensor that a device sends, at
  /// their rates, with the charges.
  struct Distances {
    std::vector<double> of{};  ///< by number, those up to `final` for good; empty: none yet
    double final = 0.0;
  };
  /// Goes on until the distance of `start` and all shorter ones are final.
  void find_distance(std::uint32_t start, const LayoutState& goal, const UnitRates& rates,
                     Distances& distances);
  /// The cheapest steps by such distances, of equal ones the first. `names`: the numbers of layouts
  /// that they have in `distances`.
  void find_path(const LayoutState& start, const LayoutState& goal, const UnitRates& rates,
                 const Distances& distances, const std::vector<std::uint32_t>& names,
                 std::vector<LayoutStep>& steps) const;
  /// By number of a layout, the one that has other names for units that are alike.
  [[nodiscard]] std::vector<std::uint32_t> renamed(const UnitNames& names) const;
  /// Roughly what it takes; distances to a goal take a double per layout.
  [[nodiscard]] std::size_t bytes() const {
    return steps_.size() * (sizeof(Step) + sizeof(StepBack)) + states_.size() * kStateBytes;
  }
  [[nodiscard]] std::size_t layouts() const { return states_.size(); }
  [[nodiscard]] std::uint32_t number(const LayoutState& state) const;

 private:
  struct Step {
    std::uint32_t to = 0;
    std::uint32_t price = 0;  ///< a number for the kind, the units, and the size of a tile before
    PathMove move;
  };
  struct HashOfState {
    std::size_t operator()(const LayoutState& state) const { return state.hash(); }
  };
  /// A step from its end.
  struct StepBack {
    std::uint32_t from = 0;
    std::uint32_t price = 0;
  };
  static constexpr std::uint32_t kKindBits = 3;
  static constexpr std::size_t kStateBytes = 2 * sizeof(LayoutState) + 32;

  void reach(const PathMove& move, const LayoutState& after) override;
  void add_states(LayoutState& state, std::size_t unit, std::uint32_t parts);
  void turn_steps();
  [[nodiscard]] double price(std::uint32_t number, std::uint32_t wanted,
                             const UnitRates& rates) const;

  RedistributionPattern shape_;
  std::vector<LayoutState> states_;
  std::unordered_map<LayoutState, std::uint32_t, HashOfState> numbers_;
  std::vector<Step> steps_;                             ///< by the layout they start from
  std::vector<std::uint32_t> first_;                    ///< the first of a layout
  std::vector<StepBack> back_;                          ///< by the layout they lead to
  std::vector<std::uint32_t> first_back_;               ///< the first of a layout
  std::vector<double> sizes_;                           ///< of tiles: shares of the tensor
  std::vector<double> prices_;                          ///< by number
  std::vector<std::pair<double, std::uint32_t>> open_;  ///< a heap of layouts, the nearest first
  std::uint32_t here_ = 0;
  double local_ = 0.0;
};

/// Other names of units by which a goal has them in order, of units that are alike.
[[nodiscard]] UnitNames names_by_goal(const RedistributionPattern& pattern, const UnitRates& rates);
[[nodiscard]] LayoutState renamed(const LayoutState& state, const UnitNames& names);

/// Graphs by shape; with `Remember::Yes` distances to goals too, one search for goals that differ in
/// the names of units alone. From any thread.
class LayoutGraphs {
 public:
  explicit LayoutGraphs(Remember remember) : remember_(remember) {}

  /// The cheapest steps from the start of a pattern, which a graph covers, to its goal.
  void find_path(const RedistributionPattern& pattern, const UnitRates& rates,
                 std::vector<LayoutStep>& steps);

 private:
  struct Known {
    std::unique_ptr<LayoutGraph> graph;
    std::unordered_map<std::string, LayoutGraph::Distances> distances;  ///< by goal and rates
    std::map<UnitNames, std::vector<std::uint32_t>> renamed;            ///< layouts
  };
  [[nodiscard]] Known& known(const RedistributionPattern& pattern);

  std::mutex mutex_;
  Remember remember_;
  std::unordered_map<std::string, Known> graphs_;
  std::size_t bytes_ = 0;  ///< of all graphs and distances
  std::string key_;
};

/// Whether digits may take part in one collective: one digit, or factors of one tensor group.
[[nodiscard]] bool one_group(const SliceDigit* first, const SliceDigit* last);
/// Digits that two cuts begin with alike.
[[nodiscard]] std::size_t common_prefix(const SliceDigits& a, const SliceDigits& b);

/// The cheapest moves from the start of a pattern to its goal, cuts and parts each straight to
/// where the goal has them. Keeps its buffers.
class RedistributionSearcher : private LayoutMoves {
 public:
  using Moves = std::vector<LayoutStep>;
  void run(const RedistributionPattern& pattern, Moves& moves);

 private:
  struct Node {
    LayoutState state;
    double cost = 0.0;
    double left = 0.0;  ///< at least
    std::uint32_t parent = 0;
    PathMove move;
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
  void reach(const PathMove& move, const LayoutState& after) override;
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
  void run(const TensorMove& move, PathFactors factors, std::vector<RedistributionStep>& steps);

 private:
  void write(const RedistributionSearcher::Moves& moves,
             std::vector<RedistributionStep>& steps) const;

  Remember remember_;
  RedistributionUnits units_;
  UnitRates rates_;
  std::shared_ptr<LayoutGraphs> graphs_;
  RedistributionSearcher search_;
  std::unordered_map<std::string, RedistributionSearcher::Moves> known_;  ///< by pattern
  std::size_t known_steps_ = 0;
  std::string key_;
  RedistributionSearcher::Moves moves_;
};

}  // namespace plansearch
