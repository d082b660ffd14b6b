// SPDX-License-Identifier: Apache-2.0
#include "communication/redistribution/mesh_transfer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

namespace plansearch::mesh_transfer_test {

namespace {

/// Devices of a mesh of hosts x devices; every dimension is cut over the axes named for it: "" not
/// at all, "0" over hosts, "1" over the devices of a host, "01" over both.
std::vector<TileHolder> mesh_of(int first_host, int hosts, int devices,
                                const std::vector<std::string>& cuts) {
  std::vector<TileHolder> holders;
  for (int h = 0; h < hosts; ++h) {
    for (int d = 0; d < devices; ++d) {
      TileHolder holder{(first_host + h) * devices + d, first_host + h, {}};
      for (const std::string& cut : cuts) {
        int pieces = 1;
        int piece = 0;
        for (const char axis : cut) {
          piece = piece * (axis == '0' ? hosts : devices) + (axis == '0' ? h : d);
          pieces *= axis == '0' ? hosts : devices;
        }
        holder.tile.push_back({1.0 * piece / pieces, (piece + 1.0) / pieces});
      }
      holders.push_back(holder);
    }
  }
  return holders;
}

/// One case of Alpa's microbenchmarks (benchmark/alpa/resharding/suite.py), the tensor as 1.
struct Case {
  std::vector<TileHolder> from;
  std::vector<TileHolder> to;
  double each;       ///< over the network with a message to every receiver
  double once;       ///< with every byte once into every host
  double bound;      ///< of the busiest host
  double broadcast;  ///< until the last broadcast has ended
};

std::vector<Case> cases() {
  const auto two = [](const std::vector<std::string>& cuts) { return mesh_of(0, 2, 4, cuts); };
  const auto other = [](const std::vector<std::string>& cuts) { return mesh_of(2, 2, 4, cuts); };
  const auto all = mesh_of(2, 2, 4, {"", "", ""});
  const auto fours = mesh_of(0, 1, 4, {"1", "", ""});
  return {
      // 1: halves on hosts to halves on hosts; four replicas each want theirs.
      {two({"0", "", ""}), other({"0", "", ""}), 4.0, 1.0, 0.5, 0.5},
      // 2: all of it everywhere to halves.
      {two({"", "", ""}), other({"0", "", ""}), 4.0, 1.0, 0.5, 0.5},
      // 3: halves of rows to halves of columns: a quarter from each host to each.
      {two({"", "0", ""}), other({"0", "", ""}), 4.0, 1.0, 0.5, 0.5},
      // 4: eighths of columns to eighths of rows: nothing is replicated.
      {two({"", "01", ""}), other({"01", "", ""}), 1.0, 1.0, 0.5, 0.5},
      // 5: quarters on the devices of both hosts to halves.
      {two({"1", "", ""}), other({"0", "", ""}), 4.0, 1.0, 0.5, 0.5},
      // 6: halves to thirds: a host gives half, takes a third.
      {two({"0", "", ""}), mesh_of(2, 3, 4, {"0", "", ""}), 4.0, 1.0, 0.5, 0.5},
      // 7 and 8: quarters on one host to everywhere on two: it must leave once, enter twice.
      {fours, all, 8.0, 2.0, 1.0, 1.0},
      {fours, all, 8.0, 2.0, 1.0, 1.0},
      // 9: as 3, other dimensions.
      {two({"", "0", ""}), other({"", "", "0"}), 4.0, 1.0, 0.5, 0.5},
  };
}

/// Every order of the jobs and every choice of senders, one after the other.
double brute(const std::vector<HostJob>& jobs) {
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  double best = 1e300;
  do {
    std::vector<std::size_t> sender(jobs.size(), 0);
    for (bool more = true; more;) {
      std::vector<double> free(16, 0.0);
      double end = 0.0;
      for (const std::size_t j : order) {
        std::vector<int> hosts = jobs[j].receivers;
        hosts.push_back(jobs[j].senders[sender[j]]);
        double start = 0.0;
        for (const int h : hosts) start = std::max(start, free[static_cast<std::size_t>(h)]);
        for (const int h : hosts) free[static_cast<std::size_t>(h)] = start + jobs[j].elements;
        end = std::max(end, start + jobs[j].elements);
      }
      best = std::min(best, end);
      more = false;
      for (std::size_t j = 0; j < jobs.size() && !more; ++j) {
        more = ++sender[j] < jobs[j].senders.size();
        if (!more) sender[j] = 0;
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

std::vector<int> some_hosts(std::mt19937& random, int first) {
  std::vector<int> hosts{first + static_cast<int>(random() % 3)};
  const int other = first + static_cast<int>(random() % 3);
  if (other != hosts.front()) hosts.push_back(other);
  return hosts;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the nine cases of Alpa's microbenchmarks, by hand") {
    int number = 0;
    for (const Case& c : cases()) {
      ++number;
      CAPTURE(number);
      const auto by = [&](TransferStrategy s) { return transfer_between(c.from, c.to, s); };
      const MeshTransfer each = by(TransferStrategy::SendReceive);
      const MeshTransfer parts = by(TransferStrategy::LocalAllGather);
      const MeshTransfer broadcast = by(TransferStrategy::Broadcast);
      CHECK(each.over_network == doctest::Approx(c.each));
      CHECK(parts.over_network == doctest::Approx(c.once));
      CHECK(broadcast.over_network == doctest::Approx(c.once));
      CHECK(network_bound(c.from, c.to) == doctest::Approx(c.bound));
      CHECK(broadcast.makespan == doctest::Approx(c.broadcast));
      // One host sends all parts of cases 7 and 8 to each of two hosts.
      CHECK(parts.makespan == doctest::Approx(number == 7 || number == 8 ? 2.0 : c.broadcast));
      CHECK(each.makespan >= 4.0 * c.bound * (number == 4 ? 0.25 : 1.0) - 1e-9);
      CHECK(parts.gather_ranks == (number == 4 ? 1 : 4));
    }
  }

  TEST_CASE("the order of few jobs is the best one") {
    std::mt19937 random(2);
    for (int round = 0; round < 60; ++round) {
      std::vector<HostJob> jobs(1 + random() % (round % 10 == 0 ? 6 : 5));
      for (HostJob& job : jobs) {
        job = {static_cast<double>(1 + random() % 9), some_hosts(random, 0), some_hosts(random, 4)};
      }
      CHECK(order_jobs(jobs) == brute(jobs));
    }
  }

  TEST_CASE("no strategy beats what hosts must take in and give") {
    std::mt19937 random(4);
    const std::vector<std::string> cuts{"", "0", "1", "01"};
    for (int round = 0; round < 100; ++round) {
      const auto spec = [&] {
        std::vector<std::string> dims{"", ""};
        dims[random() % 2] = cuts[random() % 4];
        return dims;
      };
      const auto from = mesh_of(0, 1 + static_cast<int>(random() % 3), 2, spec());
      const auto to = mesh_of(3, 1 + static_cast<int>(random() % 3), 4, spec());
      const double bound = network_bound(from, to);
      for (const TransferStrategy strategy : kTransferStrategies) {
        const MeshTransfer transfer = transfer_between(from, to, strategy);
        CAPTURE(to_text(strategy));
        CHECK(transfer.makespan >= bound - 1e-12);
        CHECK(transfer.over_network >= bound - 1e-12);
        CHECK(transfer.busiest_inside == 0.0);
      }
    }
  }

  TEST_CASE("on one host nothing passes the network") {
    const auto from = mesh_of(0, 1, 4, {"1"});
    auto to = mesh_of(0, 1, 2, {""});
    const MeshTransfer transfer = transfer_between(from, to, TransferStrategy::SendReceive);
    CHECK(transfer.over_network == 0.0);
    CHECK(transfer.makespan == 0.0);
    CHECK(transfer.busiest_inside == 1.0);  // a receiver takes in all of it
  }
}

}  // namespace plansearch::mesh_transfer_test
