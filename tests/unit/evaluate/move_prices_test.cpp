// SPDX-License-Identifier: Apache-2.0
// Ways between layouts that are looked for once for all that are alike, against a search each.
#include "partition/move_prices.hpp"

#include <doctest/doctest.h>

#include <atomic>

#include "plansearch/device_mesh.hpp"
#include "plansearch/stop_token.hpp"
#include "support/placed_sequence.hpp"
#include "support/toy_problem.hpp"

namespace plansearch {
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

TEST_SUITE("unit") {
  TEST_CASE("move prices: every pair of layouts of a product's operands as its own search says") {
    // From inputs to outputs of all products over four bits, 306 x 306, parts along what is
    // contracted.
    const DeviceMesh mesh = mesh_of(4);
    ReshardingPrices prices(mesh);
    const ReshardedTensor tensor{
        prices.subject(65536.0, WireClass::Activation, 1), {8.0, 64.0, 128.0}, price_of};
    std::vector<NumberedLayout> ends;
    std::vector<NumberedLayout> starts;
    for (const PartitionSequence& sequence : all_sequences(4)) {
      const test::PlacedSequence placed = test::place_sequence(sequence, mesh);
      const test::LinearSlices& slices = placed.phases[0];
      Layout input;
      Layout output;
      for (const SliceMap* map : {&slices.batch, &slices.m, &slices.n}) {
        input.dims.push_back(map->at(0, placed.steps).spelled(mesh));
      }
      for (const SliceMap* map : {&slices.batch, &slices.m, &slices.k}) {
        output.dims.push_back(map->at(placed.steps - 1, placed.steps).spelled(mesh));
      }
      output.partial = slices.n.spatial_axes(placed.steps);
      ends.push_back(prices.numbered(input));
      starts.push_back(prices.numbered(output));
    }
    for (const NumberedLayout& from : starts) {
      for (const NumberedLayout& to : ends) {
        const auto steps = redistribute(mesh, tensor.extents, from.layout, to.layout);
        Path path;
        write_path(steps, mesh, tensor.extents, path);
        double expected = 0.0;
        for (const PathStep& step : path) {
          if (step.kind == CommunicationKind::Slice) continue;
          expected += price_of(step.kind, step.axes, step.elements).value();
        }
        const ReshardingCost move = prices.price(tensor, from, to, ReadsAgain::Never);
        CHECK(move.time == doctest::Approx(expected).epsilon(1e-12));
        CHECK(move.length * 65536.0 == length_of(path));
      }
    }
  }

  TEST_CASE("move prices: a table that was stopped is made whole when it is asked for again") {
    const DeviceMesh mesh = mesh_of(1);
    ReshardingPrices prices(mesh);
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
    const auto ask = [&]() -> const ReshardingCosts& {
      return prices.price_all(tensor, both, both, Pairs::All, ReadsAgain::Never);
    };
    {
      const StopToken token({.signal = &stop});
      const StopScope scope(&token);
      CHECK_THROWS_AS(ask(), Stopped);
    }
    const double exchange = price_of(CommunicationKind::AllToAll, {Axis::Factor0}, 32.0)
                                .value();  // half of 64 elements
    CHECK(ask().times == std::vector<double>{0.0, exchange, exchange, 0.0});
  }
}

}  // namespace
}  // namespace plansearch
