// SPDX-License-Identifier: Apache-2.0
// Collectives of a training step, on a machine with round numbers and no latency: nodes of 8, 200
// GB/s for one rank inside a node, 25 GB/s of cards for each rank, of which an isolated benchmark
// gets 0.8 and a step 0.5; a group with some ranks of a node 0.6 of that, with all of them 0.9.
#include <doctest/doctest.h>

#include "cost/collective/collective_cost.hpp"

namespace plansearch::in_step_collective_test {
namespace {

constexpr double kMessage = 1.6e9;

Cluster round_numbers(double decay = 0.0) {
  LocalLinkCurve local;
  local.low_latency = local.low_latency_128 = Bandwidth(1e6);  // never the best protocol
  local.simple = Bandwidth(200e9);
  FabricCurve fabric;
  fabric.low_latency = Bandwidth(1e6);
  fabric.nic_efficiency = 0.8;
  fabric.step_nic_efficiency = 0.5;
  fabric.rail_efficiency = 0.6;
  fabric.full_node_efficiency = 0.9;
  fabric.efficiency_decay = decay;
  fabric.send_efficiency = 0.7;
  Cluster cluster;
  cluster.accelerators_per_node = 8;
  LinkTier inner;
  inner.size = 8;
  inner.bandwidth = Bandwidth(250e9);
  inner.curve = local;
  LinkTier outer;
  outer.size = 1024;
  outer.bandwidth = Bandwidth(25e9);
  outer.curve = fabric;
  cluster.tiers = {inner, outer};
  return cluster;
}

double milliseconds(const Cluster& cluster, CommunicationKind kind, AxisExtent group,
                    Contention contention) {
  return collective_cost(cluster, kind, Bytes(kMessage), group, contention).time.value() * 1e3;
}

TEST_SUITE("unit") {
  TEST_CASE("whole nodes: the cards carry the share of a ring over nodes") {
    // A flat ring passes 15/16 of the message through the cards of either node, 8 x 25 x 0.5 x 0.9
    // = 90 GB/s of them; isolated 160 GB/s. The tree of an all-reduce sends the message once.
    const Cluster cluster = round_numbers();
    for (const CommunicationKind kind :
         {CommunicationKind::AllGather, CommunicationKind::ReduceScatter}) {
      CHECK(milliseconds(cluster, kind, {16, 1}, Contention::TrainingStep) ==
            doctest::Approx(1.5e9 / 90e9 * 1e3).epsilon(1e-4));
      CHECK(milliseconds(cluster, kind, {16, 1}, Contention::Isolated) ==
            doctest::Approx(1.5e9 / 160e9 * 1e3).epsilon(1e-4));
    }
    CHECK(milliseconds(cluster, CommunicationKind::AllReduce, {16, 1}, Contention::TrainingStep) ==
          doctest::Approx(1.6e9 / 90e9 * 1e3).epsilon(1e-4));
  }

  TEST_CASE("some ranks of each node leave their rail, one rank of each does not") {
    // 4 of 8, two nodes: 7/8 at 4 x 25 x 0.5 x 0.6 = 30 GB/s. One of 8: a half at 12.5 GB/s.
    const Cluster cluster = round_numbers();
    CHECK(milliseconds(cluster, CommunicationKind::AllGather, {8, 2}, Contention::TrainingStep) ==
          doctest::Approx(1.4e9 / 30e9 * 1e3).epsilon(1e-4));
    CHECK(milliseconds(cluster, CommunicationKind::AllGather, {2, 8}, Contention::TrainingStep) ==
          doctest::Approx(0.8e9 / 12.5e9 * 1e3).epsilon(1e-4));
  }

  TEST_CASE("bandwidth decays with the nodes beyond two") {
    // Four nodes, exponent 1: half of the line; 31/32 of the message.
    CHECK(milliseconds(round_numbers(1.0), CommunicationKind::ReduceScatter, {32, 1},
                       Contention::TrainingStep) ==
          doctest::Approx(1.55e9 / 45e9 * 1e3).epsilon(1e-4));
  }

  TEST_CASE("inside a node a step pays what an isolated collective pays") {
    const Cluster cluster = round_numbers();
    for (const CommunicationKind kind : {CommunicationKind::AllGather, CommunicationKind::AllReduce,
                                         CommunicationKind::AllToAll}) {
      const double rounds = kind == CommunicationKind::AllReduce ? 2.0 : 1.0;
      for (const Contention contention : {Contention::TrainingStep, Contention::Isolated}) {
        CHECK(milliseconds(cluster, kind, {8, 1}, contention) ==
              doctest::Approx(rounds * 1.4e9 / 200e9 * 1e3).epsilon(1e-4));
      }
    }
  }

  TEST_CASE("an all-to-all waits for its inner part where the cards are faster") {
    // Two nodes of eight: each rank sends 7/16 of its message inside and 8/16 outside. At 100 GB/s
    // of cards for each rank, half of it in a step and 0.9 of that, the outer half takes
    // 0.8e9 / 45e9 = 17.8 ms; over links of 20 GB/s the inner part takes 0.7e9 / 20e9 = 35 ms.
    Cluster cluster = round_numbers();
    std::get<LocalLinkCurve>(cluster.tiers[0].curve).simple = Bandwidth(20e9);
    cluster.tiers[1].bandwidth = Bandwidth(100e9);
    CHECK(milliseconds(cluster, CommunicationKind::AllToAll, {16, 1}, Contention::TrainingStep) ==
          doctest::Approx(35.0).epsilon(1e-4));
    std::get<LocalLinkCurve>(cluster.tiers[0].curve).simple = Bandwidth(200e9);
    CHECK(milliseconds(cluster, CommunicationKind::AllToAll, {16, 1}, Contention::TrainingStep) ==
          doctest::Approx(0.8e9 / 45e9 * 1e3).epsilon(1e-4));
  }

  TEST_CASE("a gap in a group costs what its ranks on other nodes cost") {
    // 0 1 8 9: two ranks of each node, whose four sister groups share the cards:
    // 2 x 25 x 0.5 x 0.6 = 15 GB/s for 3/4 of the message.
    ProcessGroup group{2, 1};
    group.nest({2, 8});
    const Cluster cluster = round_numbers();
    const auto time = [&](const ProcessGroup& g) {
      return collective_cost(cluster, CommunicationKind::AllGather, Bytes(kMessage), g,
                             Contention::TrainingStep)
                 .time.value() *
             1e3;
    };
    CHECK(time(group) == doctest::Approx(1.2e9 / 15e9 * 1e3).epsilon(1e-4));
    // 0 2 4 6 fill a node with their sisters and stay inside: 3/4 at 200 GB/s.
    CHECK(time({4, 2}) == doctest::Approx(1.2e9 / 200e9 * 1e3).epsilon(1e-4));
  }

  TEST_CASE("small messages on a ring pay for its hops or for the messages of its cards") {
    // 16 ranks on two nodes: a ring of 16 links, two of them between the nodes. The last piece
    // passes 15 links, all but one inside a node: two hops of 40 us and 13 inner steps of 1 us are
    // 93 us; 15 messages at 2 us each 30 us, at 7 us each 105 us. No bytes worth counting.
    Cluster cluster = round_numbers();
    auto& local = std::get<LocalLinkCurve>(cluster.tiers[0].curve);
    auto& fabric = std::get<FabricCurve>(cluster.tiers[1].curve);
    local.step = Seconds(1e-6);
    fabric.hop_low_latency = Seconds(40e-6);
    fabric.hop = Seconds(1.0);  // never the best protocol
    fabric.low_latency = Bandwidth(1e15);
    const auto time = [&](double card, CommunicationKind kind) {
      fabric.ring_step_low_latency = Seconds(card);
      return collective_cost(cluster, kind, Bytes(8), {16, 1}).time.value() * 1e6;
    };
    CHECK(time(2e-6, CommunicationKind::AllGather) == doctest::Approx(93.0));
    CHECK(time(7e-6, CommunicationKind::AllGather) == doctest::Approx(105.0));
    // An all-reduce has a tree: two levels of 40 us and 14 inner steps.
    CHECK(time(7e-6, CommunicationKind::AllReduce) == doctest::Approx(94.0));
    // Two ranks, one on each node: one hop, no inner step; both messages of one link.
    fabric.ring_step_low_latency = Seconds(0);
    CHECK(collective_cost(cluster, CommunicationKind::AllGather, Bytes(8), {2, 8}).time.value() *
              1e6 ==
          doctest::Approx(40.0));
  }

  TEST_CASE("flags take half of the line inside a step") {
    // 15/16 of the message at 0.5 x 90 GB/s.
    Cluster cluster = round_numbers();
    auto& fabric = std::get<FabricCurve>(cluster.tiers[1].curve);
    fabric.low_latency = Bandwidth(1e15);
    fabric.hop = Seconds(1.0);  // never the best protocol
    CHECK(milliseconds(cluster, CommunicationKind::AllGather, {16, 1}, Contention::TrainingStep) ==
          doctest::Approx(1.5e9 / 45e9 * 1e3).epsilon(1e-4));
  }

  TEST_CASE("a gather over slow links inside a node is no faster over two nodes") {
    // Eight ranks at 1 GB/s each: 7/8 of the message inside, 15/16 over two nodes, whose cards and
    // flagged protocol would be faster. One rank of each node passes no such link.
    Cluster cluster = round_numbers();
    std::get<LocalLinkCurve>(cluster.tiers[0].curve).simple = Bandwidth(1e9);
    std::get<FabricCurve>(cluster.tiers[1].curve).low_latency = Bandwidth(12e9);
    const auto time = [&](const ProcessGroup& group) {
      return collective_cost(cluster, CommunicationKind::AllGather, Bytes(kMessage), group)
          .time.value();
    };
    CHECK(time({8, 1}) == doctest::Approx(1.4).epsilon(1e-4));
    CHECK(time({16, 1}) == doctest::Approx(1.5).epsilon(1e-4));
    CHECK(time({2, 8}) == doctest::Approx(0.8 / 12.0).epsilon(1e-4));
  }

  TEST_CASE("a ring over nodes runs on the links between its members of a node") {
    // A mesh gives two ranks 100 of the 300 GB/s of four, so 80 GB/s of the 240 that a rank
    // sustains. Cards of 1 TB/s for each rank do not bind.
    Cluster cluster = round_numbers();
    cluster.tiers[0].kind = TierKind::Mesh;
    cluster.tiers[0].bandwidth = Bandwidth(300e9);
    cluster.tiers[0].pair_bandwidth = Bandwidth(100e9);
    std::get<LocalLinkCurve>(cluster.tiers[0].curve).simple = Bandwidth(240e9);
    cluster.tiers[1].bandwidth = Bandwidth(1e12);
    const auto time = [&](int local) {
      ProcessGroup group{local, 1};
      group.nest({2, 8});
      return collective_cost(cluster, CommunicationKind::AllGather, Bytes(kMessage), group)
          .time.value();
    };
    CHECK(time(2) == doctest::Approx(0.75 * kMessage / 80e9).epsilon(1e-4));
    CHECK(time(4) == doctest::Approx(0.875 * kMessage / 240e9).epsilon(1e-4));
  }

  TEST_CASE("a pair of a mesh copies its own part at the rate of a device") {
    // All-gather: half of the message over the pair's 80 of 240 GB/s; 0.3 of the half that is its
    // own is copied at 240.
    Cluster cluster = round_numbers();
    cluster.tiers[0].kind = TierKind::Mesh;
    cluster.tiers[0].bandwidth = Bandwidth(300e9);
    cluster.tiers[0].pair_bandwidth = Bandwidth(100e9);
    auto& link = std::get<LocalLinkCurve>(cluster.tiers[0].curve);
    link.simple = Bandwidth(240e9);
    link.local_copy = 0.3;
    CHECK(collective_cost(cluster, CommunicationKind::AllGather, Bytes(kMessage), {2, 1})
              .time.value() ==
          doctest::Approx(0.5 * kMessage / 80e9 + 0.15 * kMessage / 240e9).epsilon(1e-3));
  }

  TEST_CASE("measured rates of groups come before what follows from bandwidths") {
    Cluster cluster = round_numbers();
    cluster.tiers[0].group_rates = {{1, 4, Bandwidth(50e9)}, {2, 4, Bandwidth(70e9)}};
    const auto gathered = [&](int ranks, int stride) {
      return collective_cost(cluster, CommunicationKind::AllGather, Bytes(kMessage),
                             ProcessGroup(ranks, stride))
          .time.value();
    };
    CHECK(gathered(4, 1) == doctest::Approx(0.75 * kMessage / 50e9).epsilon(1e-3));
    CHECK(gathered(4, 2) == doctest::Approx(0.75 * kMessage / 70e9).epsilon(1e-3));
    CHECK(gathered(2, 1) == doctest::Approx(0.5 * kMessage / 200e9).epsilon(1e-3));
    CHECK(gathered(8, 1) == doctest::Approx(0.875 * kMessage / 200e9).epsilon(1e-3));
  }

  TEST_CASE("pairs may send faster than their collectives run") {
    Cluster cluster = round_numbers();
    GroupRate pair{1, 2, Bandwidth(50e9), Bandwidth(100e9)};
    cluster.tiers[0].group_rates = {pair};
    const auto seconds = [&](CommunicationKind kind) {
      return collective_cost(cluster, kind, Bytes(kMessage), {2, 1}).time.value();
    };
    CHECK(seconds(CommunicationKind::AllGather) ==
          doctest::Approx(0.5 * kMessage / 50e9).epsilon(1e-3));
    CHECK(seconds(CommunicationKind::SendReceive) ==
          doctest::Approx(kMessage / 100e9).epsilon(1e-3));
  }

  TEST_CASE("without trees an all-reduce over nodes runs on rings") {
    // 2 x 15/16 of the message where a tree of two nodes sends it once.
    Cluster cluster = round_numbers();
    const double with = collective_cost(cluster, CommunicationKind::AllReduce, Bytes(kMessage),
                                        {16, 1}, Contention::TrainingStep)
                            .time.value();
    auto& fabric = std::get<FabricCurve>(cluster.tiers[1].curve);
    fabric.trees = false;
    const double without = collective_cost(cluster, CommunicationKind::AllReduce, Bytes(kMessage),
                                           {16, 1}, Contention::TrainingStep)
                               .time.value();
    CHECK(without > 1.5 * with);
  }

  TEST_CASE("between neighbours of two nodes a message has one card") {
    CHECK(milliseconds(round_numbers(), CommunicationKind::SendReceive, {2, 8},
                       Contention::TrainingStep) ==
          doctest::Approx(1.6e9 / (25e9 * 0.7) * 1e3).epsilon(1e-6));
  }

  TEST_CASE("the moving part of a collective is its bytes at the narrowest link") {
    // 15/16 of the message at 90 GB/s would be 16.7 ms: never more than the collective takes. In a
    // node 7/8 at 200 GB/s.
    const Cluster cluster = round_numbers();
    const CollectiveCost wide = collective_cost(cluster, CommunicationKind::AllGather,
                                                Bytes(kMessage), {16, 1}, Contention::TrainingStep);
    CHECK(wide.transfer == wide.time);
    const CollectiveCost local = collective_cost(cluster, CommunicationKind::AllGather,
                                                 Bytes(kMessage), {8, 1}, Contention::TrainingStep);
    CHECK(local.transfer.value() == doctest::Approx(1.4e9 / 200e9));
  }
}

}  // namespace
}  // namespace plansearch::in_step_collective_test
