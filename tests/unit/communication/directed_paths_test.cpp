// SPDX-License-Identifier: Apache-2.0
// The search for paths on which every cut goes straight to where the goal has it, against Dijkstra
// without a bound over the same steps.
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <tuple>

#include "communication/redistribution/redistribution_search.hpp"
#include "support/moves.hpp"
#include "support/rounds.hpp"

namespace plansearch::directed_paths_test {
namespace {

/// Of a pattern whose cuts go to the goal.
class PlainDijkstra : private LayoutMoves {
 public:
  explicit PlainDijkstra(const RedistributionPattern& pattern) : pattern_(pattern) {
    set(pattern, Landing::AtGoal);
  }

  /// The least elements that a device sends.
  [[nodiscard]] double cost() {
    add(pattern_.start, 0.0);
    while (true) {
      const auto [cost, number] = open_.begin()->first;
      const LayoutState here = open_.begin()->second;
      open_.erase(open_.begin());
      if (here == pattern_.goal) return cost;
      cost_ = cost;
      local_ = pattern_.local_elements(here);
      expand(here);
    }
  }

 private:
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t>;

  void reach(const PathMove& move, const LayoutState& after) override {
    add(after, cost_ + elements_moved(move.kind, pattern_.group_size(move),
                                      pattern_.message(move, local_)));
  }

  void add(const LayoutState& state, double cost) {
    const Key key{state.dims[0].bytes(), state.dims[1].bytes(), state.dims[2].bytes(),
                  state.partial};
    const auto [place, is_new] = known_.try_emplace(key, cost);
    if (!is_new && place->second <= cost) return;
    place->second = cost;
    open_[{cost, ++count_}] = state;
  }

  const RedistributionPattern& pattern_;
  std::map<Key, double> known_;
  std::map<std::pair<double, int>, LayoutState> open_;
  int count_ = 0;
  double cost_ = 0.0;
  double local_ = 0.0;
};

TEST_SUITE("unit") {
  TEST_CASE("directed paths: a bound on what is left changes no cost over six factors") {
    PlanDegrees plan;
    plan.tensor_out = 64;
    const DeviceMesh mesh =
        with_factors(make_device_mesh(plan, std::array{Axis::Out}), std::vector<int>(6, 2));
    std::mt19937 random(7);
    const auto draw = [&](int places) {
      Layout layout;
      for (int dim = 0; dim < 3; ++dim) layout.dims.push_back({});
      for (std::size_t bit = 6; bit-- > 0;) {
        const auto place = random() % static_cast<unsigned>(places);
        const Axis axis = factor_axis(bit);
        if (place < 3) layout.dims[place].push_back(SliceMap::shard(mesh, {axis}).digits()[0]);
        if (place == 4) layout.partial.insert(axis);
      }
      return layout;
    };
    RedistributionUnits units;
    RedistributionSearcher search;
    RedistributionSearcher::Moves moves;
    for (int round = 0; round < test::rounds(100); ++round) {
      const Layout from = draw(round % 2 == 0 ? 3 : 5);
      const Layout to = draw(round % 3 == 0 ? 4 : 3);
      constexpr std::array<double, 3> kLarge{64.0, 4096.0, 8192.0};
      units.set({mesh, kLarge, from, to}, PathFactors::Many);
      const RedistributionPattern& pattern = units.pattern();
      search.run(pattern, moves);
      double sent = 0.0;
      const LayoutState* before = &pattern.start;
      for (const LayoutStep& step : moves) {
        const double local = pattern.local_elements(*before);
        sent += elements_moved(step.move.kind, pattern.group_size(step.move),
                               pattern.message(step.move, local));
        before = &step.after;
      }
      CAPTURE(to_text(from));
      CAPTURE(to_text(to));
      CHECK(sent == doctest::Approx(PlainDijkstra(pattern).cost()).epsilon(1e-12));
    }
  }
}

}  // namespace
}  // namespace plansearch::directed_paths_test
