// SPDX-License-Identifier: Apache-2.0
// Gathers over hundreds and thousands of ranks: which algorithms a library has for them, and how
// they grow. Published points of 512 and 1,024 ranks: kernel_validation_test.cpp.
#include <doctest/doctest.h>

#include <cmath>

#include "cost/collective/collective_cost.hpp"
#include "support/frozen_hardware.hpp"

namespace plansearch::gather_scale_test {
namespace {

constexpr double kLine = 400e9 / 8;  // bytes per second of a card

Cluster cluster_of(int ranks) {
  return test::FrozenHardware().several_nodes("nvlink4-switch", "infiniband", 400e9, 8, ranks);
}

Cluster with_trees(Cluster cluster) {
  FabricCurve& fabric = std::get<FabricCurve>(cluster.tiers.back().curve);
  fabric.gather_tree_efficiency = 0.75;
  fabric.gather_tree_hop = Seconds(4e-6);
  fabric.gather_tree_rank = Seconds(2.8e-6);
  return cluster;
}

Seconds time_of(const Cluster& cluster, CommunicationKind kind, double bytes, ProcessGroup group) {
  return collective_cost(cluster, kind, Bytes(bytes), group).time;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("gathers over whole nodes take rings of any length, all-reduces trees") {
    for (int ranks = 512; ranks <= 4096; ranks *= 2) {
      CAPTURE(ranks);
      const Cluster cluster = cluster_of(ranks);
      const FabricCurve& fabric = cluster.tiers.back().fabric();
      const auto grows = [&](CommunicationKind kind) {
        return time_of(cluster_of(2 * ranks), kind, 4e9, {2 * ranks, 1}) -
               time_of(cluster, kind, 4e9, {ranks, 1});
      };
      // Twice the ranks: so many steps more, and a line that is a little slower.
      const double steps = ranks * fabric.ring_step.value();
      for (const auto kind : {CommunicationKind::AllGather, CommunicationKind::ReduceScatter}) {
        CHECK(grows(kind).value() > steps);
        CHECK(grows(kind).value() < steps * 1.1 + 1e-3);
      }
      CHECK(grows(CommunicationKind::AllReduce).value() < 1e-3);
      CHECK(time_of(with_trees(cluster), CommunicationKind::AllGather, 4e9, {ranks, 1}) ==
            time_of(cluster, CommunicationKind::AllGather, 4e9, {ranks, 1}));
    }
  }

  TEST_CASE("single ranks of many nodes gather over trees where messages are small") {
    // One of 8 ranks of each of 256 nodes: NCCL takes PAT where 2.8 us a rank and 4 us a doubling
    // at 3/4 of line rate are less than its ring.
    const Cluster rings = cluster_of(2048);
    const Cluster trees = with_trees(rings);
    const ProcessGroup group{256, 8};
    const FabricCurve& fabric = rings.tiers.back().fabric();
    const double line = kLine * fabric.nic_efficiency * std::pow(128.0, -fabric.efficiency_decay);
    const double latency = 8 * 4e-6 + 256 * 2.8e-6;
    for (const auto kind : {CommunicationKind::AllGather, CommunicationKind::ReduceScatter}) {
      const double small = time_of(trees, kind, 1e6, group).value();
      const double base = rings.tiers.front().link().base.value();
      CHECK(small == doctest::Approx(base + latency + 1e6 * 255 / 256 / (0.75 * line)));
      CHECK(small < time_of(rings, kind, 1e6, group).value());
      CHECK(time_of(trees, kind, 16e9, group) == time_of(rings, kind, 16e9, group));
    }
    CHECK(time_of(trees, CommunicationKind::AllReduce, 1e6, group) ==
          time_of(rings, CommunicationKind::AllReduce, 1e6, group));
  }
}

}  // namespace plansearch::gather_scale_test
