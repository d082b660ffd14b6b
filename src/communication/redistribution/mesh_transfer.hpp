// SPDX-License-Identifier: Apache-2.0
// A tensor that goes from one mesh of devices to another: who sends which piece to whom, in which
// order, and how much of it passes the network.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace plansearch {

/// Elements low .. high - 1 of one dimension, in units that the caller chooses.
struct Interval {
  double low = 0.0;
  double high = 1.0;
  bool operator==(const Interval&) const = default;
};

/// The part of a tensor that a device holds, or is to hold: an interval of every dimension.
struct TileHolder {
  int rank = 0;
  int host = 0;
  std::vector<Interval> tile;
};

/// A piece that lies in one tile of the sending mesh and in one of the receiving mesh.
struct UnitTask {
  double elements = 0.0;
  std::vector<int> senders;    ///< devices that hold it, by index
  std::vector<int> receivers;  ///< devices that want it, by index
};

/// Tiles of one mesh are equal or disjoint.
[[nodiscard]] std::vector<UnitTask> unit_tasks(const std::vector<TileHolder>& from,
                                               const std::vector<TileHolder>& to);

/// How replicas of a piece are served.
enum class TransferStrategy : std::uint8_t {
  SendReceive,     ///< a message to every receiver
  LocalAllGather,  ///< a part to every receiver of a host, which they gather
  Broadcast,       ///< one pipelined message through all receivers
};
inline constexpr std::array kTransferStrategies{
    TransferStrategy::SendReceive, TransferStrategy::LocalAllGather, TransferStrategy::Broadcast};
[[nodiscard]] std::string_view to_text(TransferStrategy strategy);

/// Elements that pass somewhere.
struct MeshTransfer {
  double over_network = 0.0;  ///< into all hosts together
  /// Through the cards of the host that is busy longest, gaps of the order included.
  double makespan = 0.0;
  double busiest_rank = 0.0;    ///< sent or received over the network by one device
  double busiest_inside = 0.0;  ///< the same inside its host
  double gathered = 0.0;        ///< content of a device after gathers over ...
  int gather_ranks = 1;         ///< ... so many devices of its host
};

[[nodiscard]] MeshTransfer transfer_between(const std::vector<TileHolder>& from,
                                            const std::vector<TileHolder>& to,
                                            TransferStrategy strategy);

/// No order and no strategy is faster: what every host must take in, and what only one can give.
[[nodiscard]] double network_bound(const std::vector<TileHolder>& from,
                                   const std::vector<TileHolder>& to);

/// One message over the network. It keeps the cards of its sender and of all receivers busy.
struct HostJob {
  double elements = 0.0;
  std::vector<int> senders;  ///< hosts of which one sends
  std::vector<int> receivers;
};

/// The end of the last job when hosts do one at a time: the best order and senders for few jobs,
/// largest first on the hosts that are free first for more, as they come for many.
[[nodiscard]] double order_jobs(std::vector<HostJob> jobs);
/// Jobs up to which the order is the best there is.
inline constexpr std::size_t kExactJobs = 6;

}  // namespace plansearch
