// SPDX-License-Identifier: Apache-2.0
// Closed forms of the communication model of Singh et al. (arXiv 2305.13525v3),
// and the priced path beside them.
#include "evidence/reproduce/grid_model.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "cost/collective/collective_cost.hpp"
#include "evidence/reproduce/reproduce.hpp"

namespace plansearch::grid_model_test {
namespace {

constexpr double kMessage = 1e9;

double rate(const Cluster& cluster, CommunicationKind kind, int inner, int ranks) {
  const CollectiveCost cost = collective_cost(cluster, kind, Bytes(kMessage),
                                              ProcessGroup(ranks, inner), Contention::TrainingStep);
  return cost.wire_bytes.value() / cost.time.value() / 1e9;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("grids: as many as the authors' launcher enumerates") {
    // axonn-ai/Megatron-AxoNN, examples/comm_model.py.
    CHECK(grids_of(64, 1024, 4).size() == 80);
    CHECK(grids_of(256, 1024, 16).size() == 145);
    CHECK(grids_of(1024, 1024, 64).size() == 230);
    CHECK(grids_of(4096, 8192, 32).size() == 420);
  }

  TEST_CASE(
      "grids: activations of a block weigh 6 and 19 with recomputation, "
      "4 and 12 without") {
    // Outputs 3H, H, 4H, H wide, inputs H, H, H, 4H; forward sums over `in`
    // after the first and the third product, over `out` after the others;
    // backward the other way round.
    CHECK(block_weights(true, true).out == 6.0);
    CHECK(block_weights(true, true).in == 19.0);
    CHECK(block_weights(false, true).out == 4.0);
    CHECK(block_weights(false, true).in == 12.0);
    // Gathers of forward, recomputation and backward, and one scatter.
    CHECK(block_weights(true, true).depth == 3.0);
    CHECK(block_weights(true, false).depth == 4.0);
    CHECK(block_weights(false, true).depth == 2.0);
    CHECK(block_weights(false, false).depth == 3.0);
  }

  TEST_CASE(
      "rates: listed inside a node, over the inner groups of a node "
      "beyond it") {
    const RingRates perlmutter = ring_rates("perlmutter", shipped_data());
    CHECK(perlmutter.rate(1, 4) == 225.0);
    CHECK(perlmutter.rate(2, 2) == 76.0);
    CHECK(perlmutter.rate(1, 8) == 80.0);
    CHECK(perlmutter.rate(2, 4) == 40.0);
    CHECK(perlmutter.rate(64, 2) == 20.0);
    const RingRates frontier = ring_rates("frontier", shipped_data());
    CHECK(frontier.rate(4, 2) == 36.0);
    CHECK(frontier.rate(4, 4) == 10.0);
    CHECK(frontier.used.contains({4, 2}));
    CHECK_FALSE(frontier.used.contains({1, 8}));
  }

  TEST_CASE("rates: what the topology gives is that rule, for every group") {
    const ShippedData data = shipped_data();
    for (const char* name : {"perlmutter", "frontier"}) {
      const RingRates rates = ring_rates(name, data);
      const Cluster cluster = data.cluster(ideal_machine(name, data));
      for (int inner = 1; inner <= 1024; inner *= 2) {
        for (int ranks = 2; inner * ranks <= 4096; ranks *= 2) {
          CAPTURE(name);
          CAPTURE(inner);
          CAPTURE(ranks);
          for (const auto kind : {CommunicationKind::AllGather, CommunicationKind::ReduceScatter,
                                  CommunicationKind::AllReduce}) {
            CHECK(rate(cluster, kind, inner, ranks) ==
                  doctest::Approx(rates.rate(inner, ranks)).epsilon(1e-12));
          }
        }
      }
    }
  }

  TEST_CASE("grids: derived messages of the priced path are the closed form") {
    const ShippedData data = shipped_data();
    const GptSizes sizes{3, 4096, 32, 2048};
    const std::int64_t batch = 256;
    const DerivedGrid derived({sizes, ideal_machine("perlmutter", data), 64, batch}, data);
    const RingRates rates = ring_rates("perlmutter", data);
    std::size_t compared = 0;
    for (const TensorGrid& grid : grids_of(64, batch, 1)) {
      for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
        const auto seconds = derived.seconds(grid, recompute);
        if (!seconds) continue;  // 64 ranks do not divide 32 heads
        ++compared;
        const BlockWeights weights =
            block_weights(recompute == Recompute::Full, derived.keeps_gathered());
        CAPTURE(grid.out);
        CAPTURE(grid.in);
        CAPTURE(grid.depth);
        CHECK(*seconds ==
              doctest::Approx(grid_seconds(sizes, batch, grid, rates, weights)).epsilon(1e-9));
      }
    }
    CHECK(compared == 2 * (grids_of(64, batch, 1).size() - 1));
  }

  TEST_CASE("grids: parameters and FLOPs of the published networks") {
    const ShippedData data = shipped_data();
    const Figures figures(data, "axonn");
    const auto networks = gpts_of("axonn-", data);
    CHECK(networks.size() == 12);
    for (const auto& [name, sizes] : networks) {
      const double published = figures.published(fmt::format("parameters {}", name));
      CHECK(gpt_parameters(sizes) / 1e9 == doctest::Approx(published).epsilon(1e-3));
    }
    const GptSizes sizes = find_gpt("axonn-80B", data).value();
    CHECK(gpt_flops(sizes, 1024) == doctest::Approx(1.3202e18).epsilon(1e-3));
  }
}

}  // namespace plansearch::grid_model_test
