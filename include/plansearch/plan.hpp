// SPDX-License-Identifier: Apache-2.0
// A plan as its three decisions: how operators are split (transform), which devices hold which of
// them (assign), when they run (order). Communication is a consequence and nowhere in here.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/device_mesh.hpp"
#include "plansearch/network.hpp"
#include "plansearch/placements.hpp"
#include "plansearch/schedule_id.hpp"
#include "plansearch/skip_route.hpp"

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

/// A tensor that goes from the group that makes it straight to one that reads it.
struct DirectMessage {
  std::size_t from = 0;  ///< index into Assignment::groups
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
  std::vector<std::vector<int>> contents_of{};  ///< by position and chunk
  /// Positions with the same number hold the same contents, chunk by chunk.
  std::vector<int> kind_of{};
  std::vector<int> kinds{};  ///< the first position of every kind

  [[nodiscard]] int stages() const { return static_cast<int>(positions.size()); }
  /// Groups of one position.
  [[nodiscard]] int held() const { return chunks * replicas; }
  /// Groups of one replica: group k and group k + this hold the same blocks.
  [[nodiscard]] std::size_t groups_per_replica() const {
    return groups.size() / static_cast<std::size_t>(replicas);
  }
  bool operator==(const Assignment&) const = default;
};

/// When the pieces run.
struct Order {
  ScheduleId schedule = kDefaultSchedule;
  int micro_batches = 1;  ///< per step
  bool operator==(const Order&) const = default;
};

struct ParallelPlan {
  std::vector<Transform> transforms;
  std::shared_ptr<const Assignment> assignment;
  Order order;

  [[nodiscard]] int devices() const;
  [[nodiscard]] const Transform& transform_at(int position) const;
  /// By value: equal assignments need not be the same object.
  bool operator==(const ParallelPlan& other) const;
};

/// Devices that one position of a transform takes.
[[nodiscard]] int devices_of(const Transform& transform);

/// The ranks of one position, ascending.
[[nodiscard]] std::vector<int> ranks_of(const ParallelPlan& plan, int position);

}  // namespace plansearch
