// SPDX-License-Identifier: Apache-2.0
// Process groups on nodes, each against the list of its ranks.
#include "cost/collective/place.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace plansearch::place_test {
namespace {

/// Nodes of `node` accelerators in one network.
Cluster nodes_of(int node, int size = 1 << 20) {
  Cluster cluster;
  cluster.accelerators_per_node = node;
  LinkTier inner;
  inner.size = node;
  inner.curve = LocalLinkCurve{};
  LinkTier outer;
  outer.size = size;
  outer.curve = FabricCurve{};
  cluster.tiers = {inner, outer};
  return cluster;
}

ProcessGroup group_of(std::vector<AxisExtent> extents, int world) {
  ProcessGroup group;
  for (const AxisExtent& extent : extents) group.nest(extent);
  group.world = world;
  return group;
}

void check(const Cluster& cluster, const ProcessGroup& group, double local, double nodes,
           double sisters) {
  const GroupSpan span = locate(cluster, group);
  CHECK(span.ranks == group.size());
  CHECK(span.local == doctest::Approx(local));
  CHECK(span.nodes == doctest::Approx(nodes));
  CHECK(span.sisters == doctest::Approx(sisters));
}

/// Domains touched and groups per touched domain, by walking over all ranks of all sisters.
struct Walked {
  int nodes = 0;
  bool even = true;  ///< every sister has the same number of ranks in each domain it touches
};

Walked walk(const ProcessGroup& group, int domain) {
  Walked result;
  std::vector<int> offsets{0};
  for (const AxisExtent& extent : group.extents) {
    const std::vector<int> inner = offsets;
    for (int i = 1; i < extent.size; ++i) {
      for (const int offset : inner) offsets.push_back(offset + i * extent.stride);
    }
  }
  for (int rank = 0; rank < group.world; ++rank) {
    const bool leads = std::all_of(
        group.extents.begin(), group.extents.end(),
        [&](const AxisExtent& extent) { return rank / extent.stride % extent.size == 0; });
    if (!leads) continue;
    std::map<int, int> held;
    for (const int offset : offsets) ++held[(rank + offset) / domain];
    result.nodes = std::max(result.nodes, static_cast<int>(held.size()));
    const int each = group.size() / static_cast<int>(held.size());
    for (const auto& [node, count] : held) result.even = result.even && count == each;
  }
  return result;
}

TEST_SUITE("unit") {
  TEST_CASE("place: one extent on nodes of eight") {
    const Cluster cluster = nodes_of(8);
    check(cluster, group_of({{8, 1}}, 64), 8, 1, 1);
    check(cluster, group_of({{4, 2}}, 64), 4, 1, 2);
    check(cluster, group_of({{16, 1}}, 64), 8, 2, 1);
    check(cluster, group_of({{8, 8}}, 64), 1, 8, 8);
    check(cluster, group_of({{2, 32}}, 64), 1, 2, 8);
    // Every second accelerator of two nodes: four in each, one sister group beside it.
    check(cluster, group_of({{8, 2}}, 64), 4, 2, 2);
  }

  TEST_CASE("place: a group that fills its node exactly with a stride stays inside") {
    // Ranks 0 2 4 6 and 1 3 5 7 of a node; 0 4 and 1 5, 2 6, 3 7.
    const Cluster cluster = nodes_of(8);
    CHECK(locate(cluster, group_of({{4, 2}}, 16)).wide_tier == 0);
    CHECK(locate(cluster, group_of({{2, 4}}, 16)).wide_tier == 0);
    // Twice as far they leave it: 0 8, 1 9, ...
    CHECK(locate(cluster, group_of({{2, 8}}, 16)).wide_tier == 1);
  }

  TEST_CASE("place: gaps between extents") {
    const Cluster cluster = nodes_of(8);
    // 0 1 4 5 | 2 3 6 7: inside a node.
    check(cluster, group_of({{2, 1}, {2, 4}}, 8), 4, 1, 2);
    // 0 1 8 9: two of each node, four groups share its cards. {4, stride 1} would stay inside.
    check(cluster, group_of({{2, 1}, {2, 8}}, 16), 2, 2, 4);
    // 0 1 4 5 8 9 12 13: four of each of two nodes.
    check(cluster, group_of({{2, 1}, {4, 4}}, 16), 4, 2, 2);
    // 0 4 16 20: two of each of two nodes, with a whole node between them.
    check(cluster, group_of({{2, 4}, {2, 16}}, 32), 2, 2, 4);
    // Three levels: 0 2, 16 18, 64 66, 80 82.
    check(cluster, group_of({{2, 2}, {2, 16}, {2, 64}}, 128), 2, 4, 4);
  }

  TEST_CASE("place: nodes of six and twelve") {
    // Four of six: 0-3 in the first node, 4-7 over two, 8-11 in the second.
    check(nodes_of(6), group_of({{4, 1}}, 12), 2, 2, 3);
    // 0 4 8 and three sisters: always two nodes.
    check(nodes_of(6), group_of({{3, 4}}, 12), 1.5, 2, 4);
    // Alone in the job they start with the node.
    check(nodes_of(6), group_of({{4, 1}}, 4), 4, 1, 1.5);
    // Eight of twelve: 8-15 lies half and half.
    check(nodes_of(12), group_of({{8, 1}}, 24), 4, 2, 3);
    check(nodes_of(12), group_of({{12, 2}}, 24), 6, 2, 2);
    // 0 3 6 and 9 12 15 on nodes of six: neither touches a third node.
    check(nodes_of(6), group_of({{3, 3}}, 18), 1.5, 2, 4);
  }

  TEST_CASE("place: the ends of a pipeline may share a node") {
    // Four stages of two ranks: 0 6 and 1 7 of every eight.
    ProcessGroup ends{2, 6};
    ends.period = 8;
    ends.world = 64;
    CHECK(locate(nodes_of(8), ends).wide_tier == 0);
    CHECK(locate(nodes_of(4), ends).wide_tier == 1);
  }

  TEST_CASE("place: groups lie alike on all worlds whose deciding ranks are the same") {
    const std::array order{Axis::Out, Axis::Context, Axis::Data, Axis::Pipeline};
    const AxisSet asked{Axis::Out, Axis::Context, Axis::Expert};
    std::map<std::pair<int, int>, GroupSpan> known;  // by deciding ranks and group
    int shared = 0;
    for (const int node : {4, 6, 8, 72}) {
      const Cluster cluster = nodes_of(node);
      for (const int tensor : {1, 2, 3, 8}) {
        for (const int context : {1, 2, 3}) {
          known.clear();
          for (int data = 6; data <= 480; data += 6) {
            PlanDegrees plan;
            plan.tensor_out = tensor;
            plan.context = context;
            plan.expert = 6;
            plan.data = data;
            const DeviceMesh mesh = make_device_mesh(plan, order);
            const int ranks = deciding_ranks(cluster, mesh, asked);
            CHECK(ranks <= mesh.ranks);
            for (const AxisSet axes : {AxisSet{Axis::Out}, AxisSet{Axis::Context},
                                       AxisSet{Axis::Expert}, AxisSet{Axis::Out, Axis::Context}}) {
              const GroupSpan span = locate(cluster, process_group(mesh, axes));
              const auto [place, is_new] =
                  known.try_emplace({ranks, static_cast<int>(axes.bits())}, span);
              shared += is_new ? 0 : 1;
              INFO(node, " ", tensor, " ", context, " ", data);
              CHECK(place->second == span);
            }
          }
        }
      }
    }
    CHECK(shared > 10'000);
  }

  TEST_CASE("place: a rack of several nodes is one domain") {
    Cluster cluster = nodes_of(64);
    cluster.accelerators_per_node = 4;
    check(cluster, group_of({{32, 1}}, 128), 32, 1, 2);
    check(cluster, group_of({{32, 4}}, 128), 16, 2, 4);
  }

  TEST_CASE("place: ranks of a node talk over the innermost links that join them all") {
    // Nodes of eight, bridges over pairs. Of each of two nodes: 0 1 fill a bridge just so; 0 2 and
    // 0 to 3 need more than that.
    Cluster cluster = nodes_of(8);
    LinkTier bridge = cluster.tiers[0];
    bridge.size = 2;
    cluster.tiers.insert(cluster.tiers.begin(), bridge);
    CHECK(locate(cluster, group_of({{2, 1}, {2, 8}}, 16)).local_tier == 0);
    CHECK(locate(cluster, group_of({{2, 2}, {2, 8}}, 16)).local_tier == 1);
    CHECK(locate(cluster, group_of({{4, 1}, {2, 8}}, 16)).local_tier == 1);
  }

  TEST_CASE("place: random nested groups against a walk over all ranks") {
    std::mt19937 random(7);
    const auto pick = [&](std::vector<int> of) { return of[random() % of.size()]; };
    int even = 0;
    for (int trial = 0; trial < 2000; ++trial) {
      ProcessGroup group;
      int stride = 1;
      for (int i = 0; i < 3; ++i) {
        stride *= pick({1, 1, 2, 3, 4});
        const int size = pick({1, 2, 2, 3, 4, 8});
        group.nest({size, stride});
        stride *= size;
      }
      if (group.extents.empty()) continue;
      group.world = group.period * pick({1, 2, 3, 4});
      const int domain = pick({4, 6, 8, 12, 72});
      const GroupSpan span = locate(nodes_of(domain), group);
      const Walked truth = walk(group, domain);
      CAPTURE(trial);
      CHECK((truth.nodes == 1) == (span.nodes == 1.0));
      CHECK(span.local * span.nodes == doctest::Approx(span.ranks));
      if (!truth.even) continue;
      ++even;
      CHECK(span.nodes == truth.nodes);
    }
    CHECK(even > 500);
  }
}

}  // namespace
}  // namespace plansearch::place_test
