// SPDX-License-Identifier: Apache-2.0
// Computes: pieces of a tensor between two meshes, and what passes the network under each strategy.
// Source: Zhuang et al., On Optimizing the Communication of Model Parallelism (MLSys'23, arXiv
//         2211.05322); alpa/pipeline_parallel/cross_mesh_resharding.py. Cases of the tests:
//         benchmark/alpa/resharding/suite.py.
// Assumes: cards of a host are busy in one direction at a time; a broadcast in many chunks takes as
//          long as one message.
// Units: elements, in the unit of the tiles.
// Checked by: tests/unit/communication/mesh_transfer_test.cpp
#include "communication/redistribution/mesh_transfer.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

double common_elements(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  PLANSEARCH_CHECK(a.size() == b.size());
  double volume = 1.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    volume *= std::max(0.0, std::min(a[i].high, b[i].high) - std::max(a[i].low, b[i].low));
  }
  return volume;
}

/// Devices by the tile they have, in the order the tiles come up.
struct Tile {
  std::vector<Interval> box;
  std::vector<int> holders;
};

std::vector<Tile> tiles_of(const std::vector<TileHolder>& holders) {
  std::vector<Tile> tiles;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    const auto same =
        std::ranges::find_if(tiles, [&](const Tile& tile) { return tile.box == holders[i].tile; });
    if (same != tiles.end()) {
      same->holders.push_back(static_cast<int>(i));
    } else {
      tiles.push_back({holders[i].tile, {static_cast<int>(i)}});
    }
  }
  return tiles;
}

int host_of(const std::vector<TileHolder>& holders, int index) {
  return holders[static_cast<std::size_t>(index)].host;
}

std::vector<int> hosts_of(const std::vector<TileHolder>& holders, const std::vector<int>& indices) {
  std::set<int> hosts;
  for (const int index : indices) hosts.insert(host_of(holders, index));
  return {hosts.begin(), hosts.end()};
}

/// Receivers of a task on one host.
std::vector<int> receivers_on(const std::vector<TileHolder>& to, const UnitTask& task, int host) {
  std::vector<int> receivers;
  for (const int r : task.receivers) {
    if (host_of(to, r) == host) receivers.push_back(r);
  }
  return receivers;
}

/// Best order by trying all, as long as the rest could still end earlier.
class JobOrder {
 public:
  explicit JobOrder(std::vector<HostJob> jobs) : jobs_(std::move(jobs)), done_(jobs_.size()) {}

  double largest_first() {
    std::ranges::stable_sort(jobs_, std::ranges::greater{}, &HostJob::elements);
    free_.clear();
    double end = 0.0;
    for (std::size_t placed = 0; placed < jobs_.size(); ++placed) {
      // The job that can start first; of those the largest.
      std::size_t next = jobs_.size();
      int sender = 0;
      double earliest = 0.0;
      for (std::size_t j = 0; j < jobs_.size(); ++j) {
        if (done_[j]) continue;
        for (const int host : jobs_[j].senders) {
          const double start = start_of(jobs_[j], host);
          if (next < jobs_.size() && start >= earliest) continue;
          next = j;
          sender = host;
          earliest = start;
        }
      }
      done_[next] = true;
      end = std::max(end, occupy(jobs_[next], sender, earliest));
    }
    done_.assign(done_.size(), false);
    return end;
  }

  /// In the order they come, each from the host that is free first.
  double first_come() {
    double end = 0.0;
    for (const HostJob& job : jobs_) {
      const int sender = *std::ranges::min_element(
          job.senders, [&](int a, int b) { return start_of(job, a) < start_of(job, b); });
      end = std::max(end, occupy(job, sender, start_of(job, sender)));
    }
    return end;
  }

  double best() {
    best_ = largest_first();
    free_.clear();
    try_all(0.0, 0);
    return best_;
  }

 private:
  [[nodiscard]] double start_of(const HostJob& job, int sender) {
    double start = free_[sender];
    for (const int host : job.receivers) start = std::max(start, free_[host]);
    return start;
  }

  double occupy(const HostJob& job, int sender, double start) {
    const double end = start + job.elements;
    free_[sender] = end;
    for (const int host : job.receivers) free_[host] = end;
    return end;
  }

  void try_all(double end, std::size_t placed) {
    if (end >= best_) return;
    if (placed == jobs_.size()) {
      best_ = end;
      return;
    }
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      if (done_[j]) continue;
      done_[j] = true;
      for (const int sender : jobs_[j].senders) {
        const std::map<int, double> before = free_;
        const double ended = occupy(jobs_[j], sender, start_of(jobs_[j], sender));
        try_all(std::max(end, ended), placed + 1);
        free_ = before;
      }
      done_[j] = false;
    }
  }

  std::vector<HostJob> jobs_;
  std::vector<bool> done_;
  std::map<int, double> free_;  ///< by host, from when on
  double best_ = 0.0;
};

/// Deals messages out to devices: the sender that has sent least takes the next one.
class Dealing {
 public:
  Dealing(const std::vector<TileHolder>& from, const std::vector<TileHolder>& to)
      : from_(from),
        to_(to),
        outside_(from.size()),
        inside_(from.size()),
        received_(to.size()),
        received_inside_(to.size()) {}

  /// The same piece to some receivers of other hosts, or to one of the sender's own.
  void send(double elements, const UnitTask& task, const std::vector<int>& receivers) {
    const std::vector<int> hosts = hosts_of(to_, receivers);
    const std::vector<int> near = senders_on(task, hosts);
    if (!near.empty()) {
      inside_[least(near, inside_)] += elements;
      for (const int r : receivers) received_inside_[static_cast<std::size_t>(r)] += elements;
      return;
    }
    outside_[least(task.senders, outside_)] += elements;
    for (const int r : receivers) received_[static_cast<std::size_t>(r)] += elements;
    add_job({elements, hosts_of(from_, task.senders), hosts});
    over_network_ += elements * static_cast<double>(hosts.size());
  }

  void fill(MeshTransfer& transfer) {
    const auto most = [](const std::vector<double>& values) {
      return *std::ranges::max_element(values);
    };
    transfer.over_network = over_network_;
    transfer.busiest_rank = std::max(most(outside_), most(received_));
    transfer.busiest_inside = std::max(most(inside_), most(received_inside_));
    transfer.makespan = order_jobs(std::move(jobs_));
  }

 private:
  /// Senders on the one host that all receivers are on.
  [[nodiscard]] std::vector<int> senders_on(const UnitTask& task,
                                            const std::vector<int>& hosts) const {
    std::vector<int> senders;
    if (hosts.size() != 1) return senders;
    for (const int s : task.senders) {
      if (host_of(from_, s) == hosts.front()) senders.push_back(s);
    }
    return senders;
  }

  /// Messages between the same hosts follow each other.
  void add_job(HostJob job) {
    const auto same = std::ranges::find_if(jobs_, [&](const HostJob& known) {
      return known.senders == job.senders && known.receivers == job.receivers;
    });
    if (same == jobs_.end()) {
      jobs_.push_back(std::move(job));
    } else if (job.senders.size() == 1) {
      same->elements += job.elements;
    } else {
      jobs_.push_back(std::move(job));  // several hosts can share them
    }
  }

  static std::size_t least(const std::vector<int>& senders, const std::vector<double>& sent) {
    return static_cast<std::size_t>(*std::ranges::min_element(senders, [&](int a, int b) {
      return sent[static_cast<std::size_t>(a)] < sent[static_cast<std::size_t>(b)];
    }));
  }

  const std::vector<TileHolder>& from_;
  const std::vector<TileHolder>& to_;
  std::vector<double> outside_;
  std::vector<double> inside_;
  std::vector<double> received_;
  std::vector<double> received_inside_;
  std::vector<HostJob> jobs_;
  double over_network_ = 0.0;
};

void send_to_each(const UnitTask& task, Dealing& dealing) {
  for (const int receiver : task.receivers) dealing.send(task.elements, task, {receiver});
}

/// A part to every receiver of a host; returns how many of them have to gather.
int send_parts(const UnitTask& task, const std::vector<TileHolder>& to, Dealing& dealing) {
  std::size_t most = 1;
  for (const int host : hosts_of(to, task.receivers)) {
    const std::vector<int> receivers = receivers_on(to, task, host);
    most = std::max(most, receivers.size());
    const double part = task.elements / static_cast<double>(receivers.size());
    for (const int receiver : receivers) dealing.send(part, task, {receiver});
  }
  return static_cast<int>(most);
}

/// Hosts that hold the piece themselves need no network.
void broadcast(const UnitTask& task, const std::vector<TileHolder>& from,
               const std::vector<TileHolder>& to, Dealing& dealing) {
  const std::vector<int> holding = hosts_of(from, task.senders);
  std::vector<int> far;
  for (const int host : hosts_of(to, task.receivers)) {
    const std::vector<int> receivers = receivers_on(to, task, host);
    if (std::ranges::find(holding, host) != holding.end()) {
      dealing.send(task.elements, task, receivers);
    } else {
      far.insert(far.end(), receivers.begin(), receivers.end());
    }
  }
  if (!far.empty()) dealing.send(task.elements, task, far);
}

}  // namespace

std::string_view to_text(TransferStrategy strategy) {
  constexpr std::array<std::string_view, 3> kWords{"send and receive", "local all-gather",
                                                   "broadcast"};
  return kWords.at(static_cast<std::size_t>(strategy));
}

std::vector<UnitTask> unit_tasks(const std::vector<TileHolder>& from,
                                 const std::vector<TileHolder>& to) {
  std::vector<UnitTask> tasks;
  const std::vector<Tile> held = tiles_of(from);
  for (const Tile& wanted : tiles_of(to)) {
    for (const Tile& tile : held) {
      const double elements = common_elements(tile.box, wanted.box);
      if (elements > 0.0) tasks.push_back({elements, tile.holders, wanted.holders});
    }
  }
  return tasks;
}

MeshTransfer transfer_between(const std::vector<TileHolder>& from,
                              const std::vector<TileHolder>& to, TransferStrategy strategy) {
  MeshTransfer transfer;
  Dealing dealing(from, to);
  for (const UnitTask& task : unit_tasks(from, to)) {
    switch (strategy) {
      case TransferStrategy::SendReceive:
        send_to_each(task, dealing);
        break;
      case TransferStrategy::LocalAllGather:
        transfer.gather_ranks = std::max(transfer.gather_ranks, send_parts(task, to, dealing));
        break;
      case TransferStrategy::Broadcast:
        broadcast(task, from, to, dealing);
        break;
    }
  }
  dealing.fill(transfer);
  if (transfer.gather_ranks > 1) {
    for (const TileHolder& holder : to) {
      double tile = 1.0;
      for (const Interval& interval : holder.tile) tile *= interval.high - interval.low;
      transfer.gathered = std::max(transfer.gathered, tile);
    }
  }
  return transfer;
}

double network_bound(const std::vector<TileHolder>& from, const std::vector<TileHolder>& to) {
  std::map<int, double> in;
  std::map<int, double> out;
  for (const UnitTask& task : unit_tasks(from, to)) {
    const std::vector<int> senders = hosts_of(from, task.senders);
    bool leaves = false;
    for (const int host : hosts_of(to, task.receivers)) {
      if (std::ranges::find(senders, host) != senders.end()) continue;
      in[host] += task.elements;
      leaves = true;
    }
    if (leaves && senders.size() == 1) out[senders.front()] += task.elements;
  }
  double bound = 0.0;
  for (const auto& [host, elements] : in) bound = std::max(bound, elements);
  for (const auto& [host, elements] : out) bound = std::max(bound, elements);
  return bound;
}

double order_jobs(std::vector<HostJob> jobs) {
  constexpr std::size_t kSorted = 256;
  const std::size_t count = jobs.size();
  JobOrder order(std::move(jobs));
  if (count <= kExactJobs) return order.best();
  return count <= kSorted ? order.largest_first() : order.first_come();
}

}  // namespace plansearch
