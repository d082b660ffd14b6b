// SPDX-License-Identifier: Apache-2.0
// Ways between layouts that are looked for once for all that are alike, against a search each.
#include "partition/choice_pricer.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "plansearch/device_mesh.hpp"
#include "plansearch/stop_token.hpp"
#include "support/placed_sequence.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::move_prices_test {
namespace {

/// A price that tells apart kinds, sizes and every factor.
Seconds price_of(CommunicationKind kind, AxisSet axes, double elements) {
  return Seconds(1e-9 * elements * (1.0 + static_cast<double>(kind)) *
                 static_cast<double>(axes.bits()));
}

DeviceMesh mesh_of(int bits) {
  PlanDegrees degrees;
  degrees.tensor_out = 1 << bits;
  return with_factors(make_device_mesh(degrees, test::toy_framework().rank_order),
                      std::vector<int>(static_cast<std::size_t>(bits), 2));
}

/// Operands and result of a product, parts along the contracted dimension.
struct EndLayouts {
  Layout input;
  Layout output;
};

EndLayouts end_layouts(const PartitionSequence& sequence, const DeviceMesh& mesh) {
  const test::PlacedSequence placed = test::place_sequence(sequence, mesh);
  const test::LinearSlices& slices = placed.phases[0];
  EndLayouts ends;
  for (const SliceMap* map : {&slices.batch, &slices.m, &slices.n}) {
    ends.input.dims.push_back(map->at(0, placed.steps).spelled(mesh));
  }
  for (const SliceMap* map : {&slices.batch, &slices.m, &slices.k}) {
    ends.output.dims.push_back(map->at(placed.steps - 1, placed.steps).spelled(mesh));
  }
  ends.output.partial = slices.n.spatial_axes(placed.steps);
  return ends;
}

/// Results and operands of all products over four bits.
std::pair<std::vector<NumberedLayout>, std::vector<NumberedLayout>> ends_of_products(
    const DeviceMesh& mesh, ReshardingPrices& prices) {
  std::pair<std::vector<NumberedLayout>, std::vector<NumberedLayout>> ends;
  for (const PartitionSequence& sequence : all_sequences(4)) {
    const EndLayouts layouts = end_layouts(sequence, mesh);
    ends.second.push_back(prices.numbered(layouts.input));
    ends.first.push_back(prices.numbered(layouts.output));
  }
  return ends;
}

ReshardingPrices::Layouts all_of(const std::vector<NumberedLayout>& layouts) {
  ReshardingPrices::Layouts all;
  for (const NumberedLayout& layout : layouts) all.push_back(&layout);
  return all;
}

/// Two factors in a node, two between nodes: only how many of each a group holds counts.
double by_tier(CommunicationKind kind, AxisSet axes) {
  const auto inside = (axes & AxisSet{Axis::Factor0, Axis::Factor1}).count();
  const auto across = (axes & AxisSet{Axis::Factor2, Axis::Factor3}).count();
  return (1.0 + static_cast<double>(kind)) * (inside + 7 * across);
}

class TierRates final : public StepRates {
  [[nodiscard]] double find(CommunicationKind kind, AxisSet axes) const override {
    return by_tier(kind, axes);
  }
};

TEST_SUITE("unit") {
  TEST_CASE("move prices: pairs of layouts of a product's operands as their own searches say") {
    // From inputs to outputs of all products over four bits, 306 x 306, parts along what is
    // contracted. By elements, and by rates over two tiers; every seventh has a search of its own,
    // so that each start and each end has many.
    const DeviceMesh mesh = mesh_of(4);
    const TierRates tiers;
    for (const StepRates* rates :
         {static_cast<const StepRates*>(nullptr), static_cast<const StepRates*>(&tiers)}) {
      ReshardingPrices prices(std::make_shared<KnownRoutes>(mesh));
      const ReshardedTensor tensor{
          prices.subject(65536.0, WireClass::Activation, 1), {8.0, 64.0, 128.0}, price_of, rates};
      const auto [starts, ends] = ends_of_products(mesh, prices);
      const ReshardingCosts costs =
          *prices.price_all(tensor, all_of(starts), all_of(ends), Pairs::All, ReadsAgain::Never);
      const RedistributionScratchPtr scratch = make_redistribution_scratch();
      std::size_t pair = 0;
      for (const NumberedLayout& start : starts) {
        for (const NumberedLayout& end : ends) {
          const ReshardingCost& cost = costs[pair++];
          if (pair % 7 != 0) continue;
          const TensorMove move{mesh, tensor.extents, start.layout, end.layout, rates};
          std::vector<RedistributionStep> steps;
          redistribute(move, *scratch, steps);
          Path path;
          write_path(steps, move, path);
          double expected = 0.0;
          for (const PathStep& step : path) {
            if (step.kind == CommunicationKind::Slice) continue;
            expected += price_of(step.kind, step.axes, step.elements).value();
          }
          CHECK(cost.time == doctest::Approx(expected).epsilon(1e-12));
          CHECK(cost.length * 65536.0 == length_of(path));
        }
      }
    }
  }

  TEST_CASE("move prices: paths that differ in alike factors alone cost what each path costs") {
    const DeviceMesh mesh = mesh_of(4);
    const TierRates rates;
    const auto price_by_tier = [](CommunicationKind kind, AxisSet axes, double elements) {
      return Seconds(1e-9 * elements * by_tier(kind, axes));
    };
    const auto costs_of = [&](const AlikeFactors& alike) {
      const auto routes = std::make_shared<KnownRoutes>(mesh, alike);
      ReshardingPrices prices(routes);
      const ReshardedTensor tensor{prices.subject(65536.0, WireClass::Activation, 1),
                                   {8.0, 64.0, 128.0},
                                   price_by_tier,
                                   &rates};
      const auto [starts, ends] = ends_of_products(mesh, prices);
      const ReshardingCosts costs =
          *prices.price_all(tensor, all_of(starts), all_of(ends), Pairs::All, ReadsAgain::Always);
      std::vector<std::array<double, 3>> found;
      for (std::size_t pair = 0; pair < costs.pairs.size(); ++pair) {
        found.push_back({costs[pair].length, costs[pair].time, costs[pair].again});
      }
      return std::pair(found, routes->count());
    };
    const auto [alike, few] = costs_of({{0, 0, 2, 2, 4, 5, 6, 7}});
    const auto [each, many] = costs_of({});
    CHECK(alike == each);
    CHECK(few < many);
  }

  TEST_CASE("move prices: bits inside a node are alike, and bits between nodes") {
    const Problem problem = test::toy_problem();  // nodes of eight
    const Cluster& cluster = *problem.cluster;
    const DeviceMesh mesh = mesh_of(5);
    const AlikeFactors alike = alike_factors(cluster, mesh);
    CHECK(alike.first == ByFactor<std::uint8_t>{0, 0, 0, 3, 3, 5, 6, 7});
    // Links that were measured distance by distance.
    Cluster pairs = cluster;
    pairs.tiers[0].group_rates = {{1, 2, Bandwidth(50e9), {}}, {2, 2, Bandwidth(25e9), {}}};
    CHECK(alike_factors(pairs, mesh).first == ByFactor<std::uint8_t>{0, 1, 2, 3, 4, 5, 6, 7});
  }

  TEST_CASE("move prices: a table that was stopped is made whole when it is asked for again") {
    const DeviceMesh mesh = mesh_of(1);
    ReshardingPrices prices(std::make_shared<KnownRoutes>(mesh));
    std::atomic<bool> stop{false};
    const auto price_and_stop = [&](CommunicationKind kind, AxisSet axes, double elements) {
      stop = true;  // behind the first row
      return price_of(kind, axes, elements);
    };
    const ReshardedTensor tensor{
        prices.subject(64.0, WireClass::Activation, 1), {8.0, 8.0}, price_and_stop};
    const SliceMap cut = SliceMap::shard(mesh, {Axis::Factor0});
    const NumberedLayout rows = prices.numbered({{cut, {}}, {}, {}});
    const NumberedLayout columns = prices.numbered({{{}, cut}, {}, {}});
    const ReshardingPrices::Layouts both{&rows, &columns};
    const auto ask = [&]() {
      return *prices.price_all(tensor, both, both, Pairs::All, ReadsAgain::Never);
    };
    {
      const StopToken token({.signal = &stop});
      const StopScope scope(&token);
      CHECK_THROWS_AS(ask(), Stopped);
    }
    const double exchange = price_of(CommunicationKind::AllToAll, {Axis::Factor0}, 32.0)
                                .value();  // half of 64 elements
    const ReshardingCosts whole = ask();
    REQUIRE(whole.pairs.size() == 4);
    CHECK(whole[0].time == 0.0);
    CHECK(whole[1].time == exchange);
    CHECK(whole[2].time == exchange);
    CHECK(whole[3].time == 0.0);
  }
}

}  // namespace
}  // namespace plansearch::move_prices_test
