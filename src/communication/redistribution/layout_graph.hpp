// SPDX-License-Identifier: Apache-2.0
// All layouts of a few units with all single collectives between them; not installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "communication/redistribution/layout_moves.hpp"
#include "communication/redistribution/redistribution.hpp"
#include "communication/redistribution/redistribution_units.hpp"

namespace plansearch {

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

  /// The least costs of bringing every layout to the goal, by number: shares of the tensor that a
  /// device sends, at their rates, with the charges.
  void find_distances(const LayoutState& goal, const UnitRates& rates,
                      std::vector<double>& distances);
  /// The cheapest steps by such distances, of equal ones the first.
  void find_path(const LayoutState& start, const LayoutState& goal, const UnitRates& rates,
                 const std::vector<double>& distances, std::vector<WayStep>& steps) const;
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
    WayMove move;
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

  void reach(const WayMove& move, const LayoutState& after) override;
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

/// Graphs by shape; with `Remember::Yes` distances to goals too. From any thread.
class LayoutGraphs {
 public:
  explicit LayoutGraphs(Remember remember) : remember_(remember) {}

  /// The cheapest steps from the start of a pattern, which a graph covers, to its goal.
  void find_path(const RedistributionPattern& pattern, const UnitRates& rates,
                 std::vector<WayStep>& steps);

 private:
  struct Known {
    std::unique_ptr<LayoutGraph> graph;
    std::unordered_map<std::string, std::vector<double>> distances;  ///< by goal and rates
  };
  [[nodiscard]] Known& known(const RedistributionPattern& pattern);

  std::mutex mutex_;
  Remember remember_;
  std::unordered_map<std::string, Known> graphs_;
  std::size_t bytes_ = 0;  ///< of all graphs and distances
  std::string key_;
  std::vector<double> distances_;
};

}  // namespace plansearch
