// SPDX-License-Identifier: Apache-2.0
// Expected values: by hand, and routing many tokens with a generator and an order of steps of its
// own. Bytes of an exchange: every copy that leaves a device, counted one by one.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "cost/collective/algorithm.hpp"
#include "cost/collective/collective_cost.hpp"

namespace plansearch::token_spread_test {
namespace {

Routing routing_of(int experts, int top_k, int groups = 1, int top_groups = 1) {
  Routing routing;
  routing.experts = experts;
  routing.top_k = top_k;
  routing.groups = groups;
  routing.top_groups = top_groups;
  return routing;
}

/// Experts of one token by scores: groups whose best scores sum to less are struck out first.
std::vector<int> routed(const Routing& r, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform;
  const int experts = static_cast<int>(r.experts);
  const int size = experts / static_cast<int>(r.groups);
  std::vector<std::pair<double, int>> scores;
  for (int e = 0; e < experts; ++e) scores.emplace_back(uniform(random), e);
  std::vector<std::pair<double, int>> groups;
  for (int g = 0; g < r.groups; ++g) {
    std::vector<double> own;
    for (int e = g * size; e < (g + 1) * size; ++e) own.push_back(scores[e].first);
    std::sort(own.rbegin(), own.rend());
    double sum = 0.0;
    for (int i = 0; i < r.top_k / r.top_groups && i < size; ++i) sum += own[i];
    groups.emplace_back(sum, g);
  }
  std::sort(groups.rbegin(), groups.rend());
  std::set<int> open;
  for (int i = 0; i < r.top_groups; ++i) open.insert(groups[i].second);
  std::sort(scores.rbegin(), scores.rend());
  std::vector<int> chosen;
  for (const auto& [score, expert] : scores) {
    if (open.count(expert / size) == 0) continue;
    chosen.push_back(expert);
    if (static_cast<std::int64_t>(chosen.size()) == r.top_k) break;
  }
  return chosen;
}

/// Mean boxes touched, for every number of boxes.
std::vector<double> simulated(const Routing& r, const std::vector<int>& boxes, int tokens) {
  std::mt19937 random(20);
  std::vector<double> sums(boxes.size());
  for (int t = 0; t < tokens; ++t) {
    const std::vector<int> experts = routed(r, random);
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      std::set<int> touched;
      for (const int e : experts) touched.insert(e * boxes[b] / static_cast<int>(r.experts));
      sums[b] += static_cast<double>(touched.size()) / tokens;
    }
  }
  return sums;
}

TEST_SUITE("unit") {
  TEST_CASE("two of four experts on two nodes: both miss a node in one pair of six") {
    // Pairs of experts: 6; 2 of them lie on one node, 4 on both: (2 x 1 + 4 x 2) / 6.
    CHECK(expected_boxes(routing_of(4, 2), 2.0) == doctest::Approx(10.0 / 6.0));
    CHECK(expected_boxes(routing_of(4, 2), 4.0) == doctest::Approx(2.0));
    CHECK(expected_boxes(routing_of(8, 8), 4.0) == doctest::Approx(4.0));
    CHECK(expected_boxes(routing_of(8, 2), 1.0) == 1.0);
  }

  TEST_CASE("boxes touched agree with routing, within 1 %") {
    const std::vector<Routing> cases{routing_of(8, 2),         routing_of(128, 8),
                                     routing_of(64, 6),        routing_of(256, 8, 8, 4),
                                     routing_of(160, 6, 8, 3), routing_of(64, 8, 4, 2)};
    for (const Routing& r : cases) {
      const std::vector<int> boxes{2, 4, 8};
      const std::vector<double> touched = simulated(r, boxes, 20000);
      for (std::size_t b = 0; b < boxes.size(); ++b) {
        CAPTURE(r.experts);
        CAPTURE(boxes[b]);
        CHECK(expected_boxes(r, boxes[b]) == doctest::Approx(touched[b]).epsilon(0.01));
      }
    }
  }

  TEST_CASE("copies of a token in one box vary as routing has them, within 10 %") {
    for (const Routing& r :
         {routing_of(128, 8), routing_of(256, 8, 8, 4), routing_of(64, 8, 4, 2)}) {
      for (const int boxes : {4, 16}) {
        std::mt19937 random(30);
        constexpr int kTokens = 20000;
        double squares = 0.0;
        for (int t = 0; t < kTokens; ++t) {
          double first = 0.0;
          for (const int e : routed(r, random)) {
            if (e * boxes / static_cast<int>(r.experts) == 0) first += 1.0;
          }
          squares += first * first / kTokens;
        }
        const double mean = static_cast<double>(r.top_k) / boxes;
        CAPTURE(r.groups);
        CHECK(copies_variance(r, boxes) == doctest::Approx(squares - mean * mean).epsilon(0.1));
      }
    }
  }

  TEST_CASE("a token leaves its node once per node and reaches devices over links") {
    // 16 devices on 2 nodes of 8; every token touches 1.5 nodes and 3 devices of its 4 copies. Half
    // of the nodes are the token's own; 1/8 of the devices of a node are the one that passes on.
    GroupSpan span;
    span.ranks = 16.0;
    span.local = 8.0;
    span.nodes = 2.0;
    const TokenSpread spread{4.0, 1.5, 3.0, 0.5, 0.25};
    const ExchangedBytes bytes = exchanged_bytes(Bytes(400.0), span, spread);
    CHECK(bytes.outside.value() == doctest::Approx(100.0 * 1.5 / 2.0));
    CHECK(bytes.inside.value() == doctest::Approx(100.0 * 3.0 * 7.0 / 8.0));
  }

  TEST_CASE("the slower of cards and links, at the shares that the dispatcher reaches") {
    Cluster cluster;
    cluster.accelerators_per_node = 8;
    LinkTier inner;
    inner.size = 8;
    inner.bandwidth = Bandwidth(200e9);
    LocalLinkCurve local;
    local.low_latency = local.low_latency_128 = local.simple = Bandwidth(150e9);
    inner.curve = local;
    LinkTier outer;
    outer.size = 64;
    outer.bandwidth = Bandwidth(50e9);
    FabricCurve fabric;
    fabric.low_latency = Bandwidth(1e9);
    fabric.nic_efficiency = 1.0;
    outer.curve = fabric;
    cluster.tiers = {inner, outer};
    const auto time = [&](AxisExtent group, const TokenSpread& spread) {
      return exchange_cost(cluster, Bytes(8e9), group, spread).time.value();
    };
    // 1 GB of tokens. Cards: 4 nodes, 3/4 of 2 GB over 50 x 0.8 GB/s; links: 7/8 of 4 GB over 100.
    CHECK(time({32, 1}, {8.0, 2.0, 4.0, 0.8, 0.5}) == doctest::Approx(1.5 / 40.0).epsilon(1e-4));
    CHECK(time({32, 1}, {8.0, 2.0, 7.0, 0.8, 0.5}) == doctest::Approx(6.125 / 100.0).epsilon(1e-4));
    CHECK(time({8, 1}, {8.0, 1.0, 4.0, 0.8, 0.5}) == doctest::Approx(3.5 / 100.0).epsilon(1e-4));
  }
}

}  // namespace
}  // namespace plansearch::token_spread_test
