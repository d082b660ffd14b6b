// SPDX-License-Identifier: Apache-2.0
// Rates of steps between layouts on the tiers of a machine, and a path that they change.
#include "evaluate/block/phase_message.hpp"

#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "communication/redistribution/redistribution.hpp"
#include "support/moves.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::link_rates_test {
namespace {

constexpr std::array<double, 2> kExtents{4096.0, 8192.0};

/// Sixteen devices on two nodes of eight: factors 0 to 2 inside a node, factor 3 between nodes.
DeviceMesh two_nodes() {
  PlanDegrees degrees;
  degrees.tensor_out = 16;
  return with_factors(make_device_mesh(degrees, test::toy_framework().rank_order),
                      std::array{2, 2, 2, 2});
}

/// Rows over some factors, the outermost first.
Layout rows_over(const DeviceMesh& mesh, const std::vector<std::size_t>& factors) {
  Layout layout;
  for (int dim = 0; dim < 2; ++dim) layout.dims.push_back({});
  for (const std::size_t factor : factors) {
    layout.dims[0].push_back(SliceMap::shard(mesh, {factor_axis(factor)}).digits()[0]);
  }
  return layout;
}

double moved_by(const std::vector<RedistributionStep>& steps) {
  double sum = 0.0;
  for (const RedistributionStep& step : steps) {
    sum += elements_moved(step.kind, step.group_size, step.elements);
  }
  return sum;
}

/// Nanoseconds that the collectives of the machine take, without latencies.
double time_of(const std::vector<RedistributionStep>& steps, const PricingContext& context,
               const DeviceMesh& mesh) {
  double sum = 0.0;
  for (const RedistributionStep& step : steps) {
    if (step.kind == CommunicationKind::Slice) continue;
    const Bytes bytes(step.elements * 2.0);
    sum +=
        1e9 *
        price_call(context, step.kind, bytes, process_group(mesh, step.axes)).cost.transfer.value();
  }
  return sum;
}

TEST_SUITE("unit") {
  TEST_CASE("link rates: elements moved at a rate take what the collective takes") {
    const Problem problem = test::toy_problem();
    const PricingContext context = pricing_context(problem);
    const DeviceMesh mesh = two_nodes();
    const LinkRates rates(context, mesh);
    for (const AxisSet axes :
         {AxisSet{Axis::Factor0}, AxisSet{Axis::Factor3}, AxisSet{Axis::Factor1, Axis::Factor3}}) {
      const double gathered = 1e9;
      const int ranks = mesh.size(axes);
      const Bytes bytes = wire_size(WireClass::Activation, context.precision) * gathered;
      const CallPrice call =
          price_call(context, CommunicationKind::AllGather, bytes, process_group(mesh, axes));
      const double expected = 1e9 * call.cost.transfer.value();
      CHECK(rates.rate(CommunicationKind::AllGather, axes) *
                elements_moved(CommunicationKind::AllGather, ranks, gathered) ==
            doctest::Approx(expected).epsilon(0.002));
    }
    CHECK(rates.rate(CommunicationKind::AllGather, {Axis::Factor3}) >
          rates.rate(CommunicationKind::AllGather, {Axis::Factor0}));
  }

  TEST_CASE("link rates: the cheapest path may move more elements") {
    // Rows over (3, 2), wanted over 3 alone inside 0: the node's own links carry more, the card
    // less.
    const Problem problem = test::toy_problem();
    const PricingContext context = pricing_context(problem);
    const DeviceMesh mesh = two_nodes();
    const LinkRates rates(context, mesh);
    int dearer = 0;
    for (const auto& from : {std::vector<std::size_t>{3, 0}, {0, 3}, {3, 1, 0}, {0, 3, 1}}) {
      for (const auto& to : {std::vector<std::size_t>{0}, {0, 3}, {3}, {}, {1, 0, 3}}) {
        const Layout source = rows_over(mesh, from);
        const Layout goal = rows_over(mesh, to);
        const auto fewest = test::redistribute({mesh, kExtents, source, goal});
        const auto cheapest = test::redistribute({mesh, kExtents, source, goal, &rates});
        CHECK(moved_by(fewest) <= moved_by(cheapest) * (1.0 + 1e-9));
        const double gained = time_of(fewest, context, mesh) - time_of(cheapest, context, mesh);
        const double little = 0.01 * time_of(fewest, context, mesh);
        CHECK(gained >= -little);
        if (moved_by(cheapest) > 1.01 * moved_by(fewest) && gained > little) ++dearer;
      }
    }
    CHECK(dearer > 0);
  }
}

}  // namespace
}  // namespace plansearch::link_rates_test
