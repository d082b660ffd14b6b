// SPDX-License-Identifier: Apache-2.0
#include "cost/collective/collective_cost.hpp"

#include <doctest/doctest.h>

#include <array>

#include "support/frozen_hardware.hpp"

namespace plansearch::collective_cost_test {
namespace {

constexpr std::array kKinds{CommunicationKind::AllReduce,     CommunicationKind::AllGather,
                            CommunicationKind::ReduceScatter, CommunicationKind::AllToAll,
                            CommunicationKind::SendReceive,   CommunicationKind::Permute};

double microseconds(Seconds time) {
  return time.value() * 1e6;
}

Cluster dgx_like(const test::FrozenHardware& frozen) {
  return frozen.several_nodes("nvlink4-switch", "infiniband", 400e9, 8, 1024);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("collectives inside a node agree with an independent implementation") {
    const test::FrozenHardware frozen;
    for (const auto& row : frozen.times("local")) {
      const int ranks = std::stoi(row.inputs[2]);
      const Cluster cluster = frozen.one_node(row.inputs[0], 8);
      CAPTURE(row.inputs[0]);
      CAPTURE(row.inputs[1]);
      CAPTURE(ranks);
      CHECK(microseconds(collective_cost(cluster, test::kind_of(row.inputs[1]),
                                         Bytes(std::stod(row.inputs[3])), {ranks, 1})
                             .time) == doctest::Approx(row.time_us).epsilon(1e-6));
    }
  }

  TEST_CASE("collectives across nodes agree with an independent implementation") {
    const test::FrozenHardware frozen;
    for (const auto& row : frozen.times("wide")) {
      const int ranks = std::stoi(row.inputs[4]);
      const int node = ranks / std::stoi(row.inputs[5]);
      const Cluster cluster =
          frozen.several_nodes(row.inputs[0], row.inputs[1], std::stod(row.inputs[2]), node, ranks);
      CAPTURE(row.inputs[1]);
      CAPTURE(row.inputs[3]);
      CAPTURE(ranks);
      const CollectiveCost cost = collective_cost(cluster, test::kind_of(row.inputs[3]),
                                                  Bytes(std::stod(row.inputs[6])), {ranks, 1});
      CHECK(microseconds(cost.time) == doctest::Approx(row.time_us).epsilon(1e-6));
    }
  }

  TEST_CASE("a group of one costs nothing") {
    const Cluster cluster = dgx_like(test::FrozenHardware());
    for (const CommunicationKind kind : kKinds) {
      const CollectiveCost cost = collective_cost(cluster, kind, Bytes(1e9), {1, 1});
      CHECK(cost.time == Seconds(0));
      CHECK(cost.wire_bytes == Bytes(0));
    }
  }

  TEST_CASE("more bytes never take less time, more bandwidth never more") {
    const test::FrozenHardware frozen;
    const Cluster cluster = dgx_like(frozen);
    const Cluster fast = frozen.several_nodes("nvlink4-switch", "infiniband", 800e9, 8, 1024);
    for (const CommunicationKind kind : kKinds) {
      for (const AxisExtent group :
           {AxisExtent{2, 1}, AxisExtent{8, 1}, AxisExtent{4, 2}, AxisExtent{16, 1},
            AxisExtent{8, 8}, AxisExtent{16, 16}, AxisExtent{128, 4}, AxisExtent{1024, 1}}) {
        Seconds last;
        for (double size = 1024; size < 1e11; size *= 3) {
          const Seconds time = collective_cost(cluster, kind, Bytes(size), group).time;
          CHECK(time >= last);
          CHECK(collective_cost(fast, kind, Bytes(size), group).time <= time);
          last = time;
        }
      }
    }
  }

  TEST_CASE("an all-reduce costs at least a reduce-scatter and at most both halves") {
    const Cluster cluster = dgx_like(test::FrozenHardware());
    for (const AxisExtent group : {AxisExtent{4, 1}, AxisExtent{8, 1}, AxisExtent{64, 1}}) {
      for (double size = 4096; size < 1e11; size *= 4) {
        const auto time = [&](CommunicationKind kind) {
          return collective_cost(cluster, kind, Bytes(size), group).time;
        };
        // Across nodes small all-reduces run on trees, which reduce-scatter has not: fewer hops.
        if (group.size <= 8 || size > 1e9) {
          CHECK(time(CommunicationKind::AllReduce) >=
                0.999 * time(CommunicationKind::ReduceScatter));
        }
        CHECK(time(CommunicationKind::AllReduce) <=
              1.001 *
                  (time(CommunicationKind::ReduceScatter) + time(CommunicationKind::AllGather)));
      }
    }
  }

  TEST_CASE("a ring all-reduce sends what a reduce-scatter and an all-gather send") {
    // (p - 1)/p of the message each way, wherever the group lies.
    const Cluster cluster = dgx_like(test::FrozenHardware());
    for (const AxisExtent group : {AxisExtent{2, 1}, AxisExtent{8, 1}, AxisExtent{8, 8},
                                   AxisExtent{3, 1}, AxisExtent{64, 1}, AxisExtent{128, 8}}) {
      const auto sent = [&](CommunicationKind kind) {
        return collective_cost(cluster, kind, Bytes(960.0), group).wire_bytes.value();
      };
      const double share = (group.size - 1.0) / group.size;
      CHECK(sent(CommunicationKind::ReduceScatter) == doctest::Approx(share * 960));
      CHECK(sent(CommunicationKind::AllGather) == doctest::Approx(share * 960));
      CHECK(sent(CommunicationKind::AllToAll) == doctest::Approx(share * 960));
      CHECK(sent(CommunicationKind::AllReduce) == doctest::Approx(2 * share * 960));
      CHECK(sent(CommunicationKind::SendReceive) == 960);
    }
  }

  TEST_CASE("large rings run at what one rank sustains") {
    // 16 GiB over 8 ranks: (7/8 + local copy 0.4099/8) * 16 GiB / 371.3 GB/s = 42.8 ms, plus
    // 0.33 ms of fill and latency.
    const Cluster cluster = test::FrozenHardware().one_node("nvlink4-switch", 8);
    const CollectiveCost cost =
        collective_cost(cluster, CommunicationKind::AllGather, Bytes(16.0 * 1073741824), {8, 1});
    const double moved = (7.0 / 8.0 + 0.4099 / 8.0) * 16.0 * 1073741824.0;
    CHECK(cost.time.value() > moved / 371.3e9);
    CHECK(cost.time.value() < 1.01 * moved / 371.3e9);
    CHECK(cost.wire_bytes.value() == doctest::Approx(7.0 / 8.0 * 16.0 * 1073741824.0));
  }

  TEST_CASE("meshes give a pair its own link only") {
    // Four accelerators, 100 GB/s between each two, 300 GB/s each in all: two of them have a
    // third of the bandwidth of four.
    const Cluster cluster = test::FrozenHardware().one_node("nvlink3-mesh-4", 4);
    const auto busy = [&](int ranks) {
      const double size = 4e9;
      const double moved = size * (ranks - 1) / ranks;
      return moved / collective_cost(cluster, CommunicationKind::AllGather, Bytes(size), {ranks, 1})
                         .time.value();
    };
    CHECK(busy(2) == doctest::Approx(busy(4) / 3.0).epsilon(0.15));
    const double send =
        collective_cost(cluster, CommunicationKind::SendReceive, Bytes(4e9), {4, 1}).time.value();
    CHECK(4e9 / send == doctest::Approx(80.1e9).epsilon(0.02));
  }

  TEST_CASE("shared buses divide") {
    const Cluster cluster = test::FrozenHardware().one_node("pcie4-host", 8);
    const Seconds two =
        collective_cost(cluster, CommunicationKind::AllGather, Bytes(1e9), {2, 1}).time;
    const Seconds eight =
        collective_cost(cluster, CommunicationKind::AllGather, Bytes(1e9), {8, 1}).time;
    CHECK(eight / two > 10.0);
  }

  TEST_CASE("strided groups share the cards of a node with their sister groups") {
    // Eight ranks, one per node: each of the eight groups gets an eighth of the 400 GB/s.
    const Cluster cluster = dgx_like(test::FrozenHardware());
    const double size = 8e9;
    const double time =
        collective_cost(cluster, CommunicationKind::ReduceScatter, Bytes(size), {8, 8})
            .time.value();
    CHECK(7.0 / 8.0 * size / time < 50e9 * 0.94);
    CHECK(7.0 / 8.0 * size / time > 50e9 * 0.85);
    // Strides beyond one node are legal and no faster.
    CHECK(collective_cost(cluster, CommunicationKind::ReduceScatter, Bytes(size), {8, 16})
              .time.value() == doctest::Approx(time));
  }

  TEST_CASE("bandwidth falls with the number of nodes") {
    const Cluster cluster = dgx_like(test::FrozenHardware());
    const auto bus = [&](int ranks) {
      const double size = 64e9;
      const double moved = size * (ranks - 1) / ranks;
      return moved / collective_cost(cluster, CommunicationKind::AllGather, Bytes(size), {ranks, 1})
                         .time.value();
    };
    CHECK(bus(16) > bus(128));
    CHECK(bus(128) > bus(1024));
  }
}

}  // namespace plansearch::collective_cost_test
