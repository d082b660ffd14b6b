// SPDX-License-Identifier: Apache-2.0
// A plan as its three decisions: how operators are split (transform), which devices hold which of
// them (assign), when they run (order). Communication is a consequence and nowhere in here.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/device_mesh.hpp"
#include "plansearch/framework_constants.hpp"
#include "plansearch/network.hpp"
#include "plansearch/placements.hpp"
#include "plansearch/schedule_id.hpp"

namespace plansearch {

/// How the operators of a group are split over the devices of its mesh: degrees, tensor policies
/// (zero, shard group) and recomputation. `pipeline` and `chunks` are those of the whole plan,
/// `micro_batch` the sequences of one micro-batch on one device of this mesh.
struct Transform {
  PlanDegrees degrees;
  DeviceMesh mesh;
  /// Placements of single operators; their factors are axes of the mesh. Null: nothing.
  std::shared_ptr<const Placements> placements{};
  /// Whether the placements say more than the degrees, of which rings follow.
  [[nodiscard]] bool is_placed() const { return placements && degrees.temporal == Temporal::None; }
  bool operator==(const Transform& other) const;
};

/// A place in the pipeline: the ranks `first` + offsets of the mesh of its transform.
struct DevicePosition {
  int transform = 0;  ///< index into ParallelPlan::transforms
  int first = 0;      ///< smallest rank
  bool operator==(const DevicePosition&) const = default;
};

/// Consecutive blocks of the network on one position. Several groups on one position are its
/// chunks; a pipeline stage is this view of the assignment.
struct OperatorGroup {
  int position = 0;  ///< index into Assignment::positions
  int chunk = 0;     ///< which of the groups on this position
  std::vector<BlockRun> blocks;
  int content = 0;  ///< index into Assignment::contents
  bool operator==(const OperatorGroup&) const = default;
};

/// A tensor at the border of a block: its inputs by number, then its outputs.
struct BlockPort {
  std::size_t block = 0;  ///< index into Network::blocks
  std::size_t port = 0;
  bool operator==(const BlockPort&) const = default;
};

/// Copies of one block of a group that hold a tensor at the same port.
struct PortHolders {
  BlockPort at;
  std::int64_t first = 0;  ///< the first of them among the group's copies of the block
  std::int64_t copies = 1;
  bool operator==(const PortHolders&) const = default;
};

/// Edges of a network, as one group of its blocks meets them.
struct GroupEdges {
  /// Tensors that several copies hold: one buffer each.
  std::vector<std::vector<PortHolders>> shared{};
  /// Go to the next group besides what the last block hands on, for readers there or behind it;
  /// named by the port of the producer.
  std::vector<BlockPort> leaving{};
  std::vector<BlockPort> passing{};  ///< of those, what is neither made nor read here
  bool operator==(const GroupEdges&) const = default;
};

/// Blocks that the devices of several positions hold together: each has a part of them, and all run
/// it at the same time.
struct Gang {
  DevicePosition place;        ///< a mesh over all of these devices
  std::vector<int> positions;  ///< whose devices they are, ascending
  std::size_t before = 0;      ///< micro-batches pass it in front of this group
  std::vector<BlockRun> blocks;
  int content = 0;  ///< index into Assignment::contents
  bool operator==(const Gang&) const = default;
};

/// The group or gang that a micro-batch passes next.
struct Stop {
  std::size_t index = 0;  ///< into Assignment::groups or Assignment::gangs
  bool gang = false;
  bool operator==(const Stop&) const = default;
};

/// A tensor that goes from the group that makes it straight to one that reads it.
struct DirectMessage {
  /// Index into Assignment::groups; where there are gangs, into Assignment::stops.
  std::size_t from = 0;
  std::size_t to = 0;
  BlockPort tensor;  ///< of its producer
  bool operator==(const DirectMessage&) const = default;
};

/// The content that equal groups share; every group names one.
struct GroupContent {
  int transform = 0;
  std::vector<double> copies;  ///< by index into Network::blocks
  std::size_t last_block = 0;  ///< whose outputs leave the group
  std::vector<BlockRun> blocks{};
  GroupEdges edges{};
  bool operator==(const GroupContent&) const = default;
};

/// Which devices hold which blocks. Immutable and shared by all plans that agree on it.
struct Assignment {
  std::vector<DevicePosition> positions;
  std::vector<OperatorGroup> groups;  ///< in the order micro-batches pass them
  std::vector<GroupContent> contents;
  int chunks = 1;    ///< groups per position and replica
  int replicas = 1;  ///< of the network, one after the other in `groups`, micro-batches dealt out
  SkipRoute skips = SkipRoute::Direct;
  std::vector<DirectMessage> direct{};          ///< along edges, sorted by `to`
  std::vector<Gang> gangs{};                    ///< in the order micro-batches pass them
  std::vector<Stop> stops{};                    ///< groups and gangs, where there are gangs
  std::vector<std::vector<int>> contents_of{};  ///< by position: of chunks, then of gangs
  /// Positions with the same number hold the same contents, chunk by chunk.
  std::vector<int> kind_of{};
  std::vector<int> kinds{};  ///< the first position of every kind

  [[nodiscard]] int stages() const { return static_cast<int>(positions.size()); }
  /// Number of stops of a micro-batch, in all replicas.
  [[nodiscard]] std::size_t stop_count() const {
    return gangs.empty() ? groups.size() : stops.size();
  }
  [[nodiscard]] const Gang* gang_at(std::size_t stop) const {
    return gangs.empty() || !stops[stop].gang ? nullptr : &gangs[stops[stop].index];
  }
  /// The group of a stop that is not a gang.
  [[nodiscard]] const OperatorGroup& group_at(std::size_t stop) const {
    return groups[gangs.empty() ? stop : stops[stop].index];
  }
  [[nodiscard]] int content_at(std::size_t stop) const {
    const Gang* gang = gang_at(stop);
    return gang != nullptr ? gang->content : group_at(stop).content;
  }
  [[nodiscard]] const DevicePosition& place_at(std::size_t stop) const {
    const Gang* gang = gang_at(stop);
    return gang != nullptr ? gang->place
                           : positions[static_cast<std::size_t>(group_at(stop).position)];
  }
  /// Whether the devices of a position run it.
  [[nodiscard]] bool runs_at(std::size_t stop, int position) const;
  /// Groups of one position.
  [[nodiscard]] int held() const { return chunks * replicas; }
  /// Groups of one replica: group k and group k + this hold the same blocks.
  [[nodiscard]] std::size_t groups_per_replica() const {
    return groups.size() / static_cast<std::size_t>(replicas);
  }
  bool operator==(const Assignment&) const = default;
};

/// A pass of a micro-batch through what it stops at.
struct StopPass {
  std::size_t stop = 0;  ///< of the groups, or of Assignment::stops where there are gangs
  bool backward = false;
  bool operator==(const StopPass&) const = default;
};

/// `first` of micro-batch m ends before `second` of micro-batch m + later begins, for every m.
struct OrderRule {
  StopPass first;
  StopPass second;
  int later = 0;
  bool operator==(const OrderRule&) const = default;
};

/// When the pieces run.
struct Order {
  ScheduleId schedule = kDefaultSchedule;
  int micro_batches = 1;  ///< per step
  /// Whether the order is found, in place of the schedule's: the shortest window that repeats with
  /// every micro-batch under these rules.
  bool window = false;
  std::vector<OrderRule> rules{};
  bool operator==(const Order&) const = default;
};

struct ParallelPlan {
  std::vector<Transform> transforms;
  std::shared_ptr<const Assignment> assignment;
  Order order;

  [[nodiscard]] int devices() const;
  [[nodiscard]] const Transform& transform_at(int position) const;
  /// Compares by value: equal assignments need not be the same object.
  bool operator==(const ParallelPlan& other) const;
};

/// Devices that one position of a transform takes.
[[nodiscard]] int devices_of(const Transform& transform);

/// The ranks of one position, ascending.
[[nodiscard]] std::vector<int> ranks_of(const ParallelPlan& plan, int position);
/// The same of any place of a transform.
[[nodiscard]] std::vector<int> ranks_of(const Transform& transform, int first);

}  // namespace plansearch
