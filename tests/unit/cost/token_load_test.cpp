// SPDX-License-Identifier: Apache-2.0
// Expected values: tables of order statistics, sums by hand, a million tokens routed by a generator
// of its own, and copies followed one by one by tools/witness/token_bytes.py.
#include "cost/collective/collective_cost.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "cost/collective/algorithm.hpp"
#include "io/tables/csv.hpp"
#include "support/source_directory.hpp"

namespace plansearch::token_load_test {
namespace {

Routing routing_of(int experts, int top_k, double spread = 0.0) {
  Routing routing;
  routing.experts = experts;
  routing.top_k = top_k;
  routing.spread = spread;
  return routing;
}

/// Different experts of one token: the first of a shuffled list.
void draw_token(std::vector<int>& experts, int top_k, std::mt19937& random) {
  for (int i = 0; i < top_k; ++i) {
    std::uniform_int_distribution<int> rest(i, static_cast<int>(experts.size()) - 1);
    std::swap(experts[static_cast<std::size_t>(i)],
              experts[static_cast<std::size_t>(rest(random))]);
  }
}

double over_mean(const std::vector<double>& loads) {
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  return *std::max_element(loads.begin(), loads.end()) * static_cast<double>(loads.size()) / sum;
}

/// Fullest rank over the mean, tokens drawn without preference, a million of them in batches.
double simulated(const Routing& routing, int ranks, int tokens) {
  std::mt19937 random(7);
  std::vector<int> experts(static_cast<std::size_t>(routing.experts));
  std::iota(experts.begin(), experts.end(), 0);
  const int held = static_cast<int>(routing.experts) / ranks;
  const int batches = 1'000'000 / tokens;
  double sum = 0.0;
  for (int b = 0; b < batches; ++b) {
    std::vector<double> loads(static_cast<std::size_t>(ranks), 0.0);
    for (int t = 0; t < tokens; ++t) {
      draw_token(experts, static_cast<int>(routing.top_k), random);
      for (int i = 0; i < static_cast<int>(routing.top_k); ++i) {
        loads[static_cast<std::size_t>(experts[static_cast<std::size_t>(i)] / held)] += 1.0;
      }
    }
    sum += over_mean(loads) / batches;
  }
  return sum;
}

/// The same where experts have shares of their own, with so many tokens that drawing adds nothing.
double popular(const Routing& routing, int ranks) {
  std::mt19937 random(11);
  std::gamma_distribution<double> share(1.0 / (*routing.spread * *routing.spread), 1.0);
  constexpr int kDraws = 4000;
  const int held = static_cast<int>(routing.experts) / ranks;
  double sum = 0.0;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<double> loads(static_cast<std::size_t>(ranks), 0.0);
    for (int e = 0; e < static_cast<int>(routing.experts); ++e) {
      loads[static_cast<std::size_t>(e / held)] += share(random);
    }
    sum += over_mean(loads) / kDraws;
  }
  return sum;
}

TEST_SUITE("unit") {
  TEST_CASE("the largest of n normal numbers, as tables of order statistics have it") {
    // Of two: 1/sqrt(pi); of three: 3/(2 sqrt(pi)); Teichroew 1956: 8: 1.42360, 16: 1.76599.
    CHECK(expected_largest(1.0) == 0.0);
    CHECK(expected_largest(2.0) == doctest::Approx(0.5641896).epsilon(1e-5));
    CHECK(expected_largest(3.0) == doctest::Approx(0.8462844).epsilon(1e-5));
    CHECK(expected_largest(8.0) == doctest::Approx(1.42360).epsilon(1e-5));
    CHECK(expected_largest(16.0) == doctest::Approx(1.76599).epsilon(1e-5));
  }

  TEST_CASE("experts that are alike, one rank, a stated load, a limit") {
    Routing routing = routing_of(8, 2);
    CHECK(fullest_rank(routing, 1.0, 100.0) == 1.0);
    routing.spread.reset();
    CHECK(fullest_rank(routing, 4.0, 100.0) == 1.0);
    routing.imbalance = 1.5;
    CHECK(fullest_rank(routing, 4.0, 100.0) == 1.5);
    routing = routing_of(8, 2, 1.0);
    const double free = fullest_rank(routing, 4.0, 1e6);
    CHECK(free > 1.3);
    routing.most = 1.2;
    CHECK(fullest_rank(routing, 4.0, 1e6) == 1.2);
  }

  TEST_CASE("top 1 of two ranks: half the mean difference of a fair coin") {
    // 10,000 tokens, 5,000 a rank: the fuller has sqrt(10,000) / 2 / sqrt(pi / 2) more than half.
    const double more = 50.0 * std::sqrt(2.0 / 3.14159265358979) / 5000.0;
    CHECK(fullest_rank(routing_of(2, 1), 2.0, 5000.0) == doctest::Approx(1.0 + more).epsilon(1e-4));
  }

  TEST_CASE("tokens of the fullest rank agree with routing, within 1 %") {
    for (const auto& [experts, top_k, ranks, tokens] :
         {std::array{8, 2, 4, 1000}, std::array{64, 6, 8, 500}, std::array{128, 8, 8, 4000},
          std::array{128, 8, 32, 2000}, std::array{256, 8, 64, 2000}}) {
      CAPTURE(experts);
      CAPTURE(ranks);
      const Routing routing = routing_of(experts, top_k);
      const double rows = static_cast<double>(tokens) * top_k / ranks;
      CHECK(fullest_rank(routing, ranks, rows) ==
            doctest::Approx(simulated(routing, ranks, tokens)).epsilon(0.01));
    }
  }

  TEST_CASE("experts with shares of their own agree with drawn shares, within 1 %") {
    for (const auto& [ranks, spread] :
         {std::pair{4, 0.26}, std::pair{8, 0.26}, std::pair{32, 0.26}, std::pair{8, 0.5}}) {
      CAPTURE(ranks);
      const Routing routing = routing_of(128, 8, spread);
      CHECK(fullest_rank(routing, ranks, 1e12) ==
            doctest::Approx(popular(routing, ranks)).epsilon(0.01));
    }
  }

  TEST_CASE("bytes over cards and links: 200 mixtures, copies followed one by one") {
    const auto table = io::CsvTable::read(PLANSEARCH_SOURCE_DIR "/tests/data/token_bytes.csv");
    CHECK(table.rows().size() == 200);
    for (const io::CsvRow& row : table.rows()) {
      const auto number = [&](const char* column) { return *table.number(row, column, 0.0); };
      const Routing routing =
          routing_of(static_cast<int>(number("experts")), static_cast<int>(number("top_k")));
      GroupSpan span;
      span.ranks = number("devices");
      span.local = number("per_node");
      span.nodes = span.ranks / span.local;
      const TokenSpread spread{number("top_k"), expected_boxes(routing, span.nodes),
                               expected_boxes(routing, span.ranks), 1.0, 1.0};
      // A device sends one token of 100 bytes, counted with all its copies.
      const ExchangedBytes bytes = exchanged_bytes(Bytes(100.0 * number("top_k")), span, spread);
      CAPTURE(row.line);
      CHECK(bytes.outside.value() == doctest::Approx(100.0 * number("card_copies")).epsilon(0.01));
      CHECK(bytes.inside.value() == doctest::Approx(100.0 * number("link_copies")).epsilon(0.01));
    }
  }
}

}  // namespace
}  // namespace plansearch::token_load_test
