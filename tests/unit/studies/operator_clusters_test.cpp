// SPDX-License-Identifier: Apache-2.0
#include "studies/reproduce/alpa/alpa_planner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <set>

using namespace plansearch;

namespace {

/// Bytes that operators first..last read from before: by the definition, tensor by tensor.
double received(const OperatorChain& chain, int first, int last) {
  double bytes = 0.0;
  for (const PassedTensor& tensor : chain.tensors) {
    if (tensor.producer >= first) continue;
    const bool read = std::any_of(tensor.readers.begin(), tensor.readers.end(),
                                  [&](int r) { return first <= r && r <= last; });
    if (read) bytes += tensor.bytes;
  }
  return bytes;
}

struct Totals {
  double worst = 0.0;
  double received = 0.0;
  double squares = 0.0;
};

/// Of the clusters that begin at the marked operators; nothing where one has too many FLOPs.
std::optional<Totals> totals_of(const OperatorChain& chain, const std::vector<int>& first,
                                double most_flops) {
  Totals totals;
  for (std::size_t c = 0; c < first.size(); ++c) {
    const int end = c + 1 < first.size() ? first[c + 1] : static_cast<int>(chain.flops.size());
    const double flops =
        std::accumulate(chain.flops.begin() + first[c], chain.flops.begin() + end, 0.0);
    if (flops > most_flops * (1.0 + 1e-12)) return std::nullopt;
    const double bytes = received(chain, first[c], end - 1);
    totals.worst = std::max(totals.worst, bytes);
    totals.received += bytes;
    totals.squares += flops * flops;
  }
  return totals;
}

/// All ways to begin clusters.
std::optional<Totals> brute(const OperatorChain& chain, int clusters, double imbalance) {
  const int count = static_cast<int>(chain.flops.size());
  const double most_flops =
      (1.0 + imbalance) * std::accumulate(chain.flops.begin(), chain.flops.end(), 0.0) / clusters;
  std::vector<Totals> all;
  for (unsigned mask = 0; mask < 1U << (count - 1); ++mask) {
    std::vector<int> first{0};
    for (int i = 1; i < count; ++i) {
      if ((mask >> (i - 1) & 1U) != 0) first.push_back(i);
    }
    if (static_cast<int>(first.size()) != clusters) continue;
    if (const auto totals = totals_of(chain, first, most_flops)) all.push_back(*totals);
  }
  if (all.empty()) return std::nullopt;
  double worst = std::numeric_limits<double>::infinity();
  for (const Totals& t : all) worst = std::min(worst, t.worst);
  std::erase_if(all, [&](const Totals& t) { return t.worst > worst * (1.0 + 1e-4); });
  return *std::min_element(all.begin(), all.end(), [](const Totals& a, const Totals& b) {
    return a.received != b.received ? a.received < b.received : a.squares < b.squares;
  });
}

}  // namespace

TEST_CASE("clusters equal brute force on random chains") {
  std::mt19937 random(1);
  int possible = 0;
  for (int round = 0; round < 200; ++round) {
    const int count = 3 + static_cast<int>(random() % 8);
    OperatorChain chain;
    for (int i = 0; i < count; ++i) chain.flops.push_back(static_cast<double>(1 + random() % 9));
    for (int i = 0; i + 1 < count; ++i) {
      PassedTensor tensor{i, {}, static_cast<double>(1 + random() % 5)};
      for (int r = i + 1; r < count; ++r) {
        if (r == i + 1 || random() % 4 == 0) tensor.readers.push_back(r);
      }
      chain.tensors.push_back(tensor);
    }
    const int clusters = 1 + static_cast<int>(random() % 4);
    const double imbalance = 0.25 * static_cast<double>(random() % 4);
    const auto found = cluster_operators(chain, clusters, imbalance);
    const auto expected = brute(chain, clusters, imbalance);
    REQUIRE(found.has_value() == expected.has_value());
    if (!found) continue;
    ++possible;
    const auto totals = totals_of(chain, found->first, 1e9);
    CHECK(found->most_received == totals->worst);
    CHECK(found->received == totals->received);
    CHECK(totals->worst == expected->worst);
    CHECK(totals->received == expected->received);
    CHECK(totals->squares == expected->squares);
  }
  CHECK(possible > 100);
}

TEST_CASE("equal operators in a chain make equal clusters") {
  OperatorChain chain;
  chain.flops.assign(48, 1.0);
  for (int i = 0; i + 1 < 48; ++i) chain.tensors.push_back({i, {i + 1}, 4.0});
  const auto found = cluster_operators(chain, 16, 0.5);
  REQUIRE(found);
  for (int c = 0; c < 16; ++c) CHECK(found->first[static_cast<std::size_t>(c)] == 3 * c);
  CHECK(found->most_received == 4.0);
  CHECK(found->received == 15 * 4.0);
}

TEST_CASE("one operator too heavy for its share makes clusters impossible") {
  OperatorChain chain;
  chain.flops = {10.0, 1.0, 1.0};
  CHECK_FALSE(cluster_operators(chain, 2, 0.5));  // 10 > 1.5 x 6
  CHECK(cluster_operators(chain, 2, 1.0)->first == std::vector<int>{0, 1});
  CHECK_FALSE(cluster_operators(chain, 4, 1.0));
}
