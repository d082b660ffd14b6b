// SPDX-License-Identifier: Apache-2.0
// Computes: which links the messages between two groups of blocks cross, and how much of a tile
//           the busiest rank sends or receives.
// Source: exact intersections of the tiles of both meshes; the least-loaded holder sends. Over a
//         network the strategies of communication/redistribution/mesh_transfer.hpp.
// Assumes: residual streams are cut over batch (data, depth) and tokens (context; out under
//          sequence parallelism); tiles of one cut are equal.
// Units: ranks; shares of a tile.
// Checked by: tests/unit/evaluate/boundary_test.cpp
#include "evaluate/step/boundary.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "communication/redistribution/mesh_transfer.hpp"

namespace plansearch {
namespace {

/// Ranks of a position relative to its first one: runs of neighbours, and where the runs start.
struct RankRuns {
  int length = 1;
  std::vector<int> starts{0};
};

RankRuns runs_of(const DeviceMesh& mesh) {
  ProcessGroup group =
      process_group(mesh, {Axis::In, Axis::Out, Axis::Depth, Axis::Context, Axis::Data});
  RankRuns runs;
  for (const AxisExtent& extent : group.extents) {
    if (extent.stride == 1) {
      runs.length = extent.size;
      continue;
    }
    const std::vector<int> before = runs.starts;
    for (int i = 1; i < extent.size; ++i) {
      for (const int start : before) runs.starts.push_back(start + i * extent.stride);
    }
  }
  return runs;
}

/// Whether all pairs (r, r + distance) of the runs stay in one domain each.
bool pairs_stay(const RankRuns& runs, int first, int distance, int domain) {
  return std::all_of(runs.starts.begin(), runs.starts.end(), [&](int start) {
    const int low = first + start + std::min(distance, 0);
    const int high = first + start + runs.length - 1 + std::max(distance, 0);
    return low / domain == high / domain;
  });
}

/// The largest domain that a pair leaves, given who stays.
template <typename Stays>
int left_domain(const Cluster& cluster, Stays stays) {
  int left = 0;
  for (std::size_t i = 0; i + 1 < cluster.tiers.size(); ++i) {
    if (!stays(cluster.tiers[i].size)) left = cluster.tiers[i].size;
  }
  return left;
}

/// A rank's part of the residual stream: an interval of sequences times one of tokens.
struct Tile {
  int batch = 0;
  int batches = 1;
  int token = 0;
  int tokens = 1;
  [[nodiscard]] double area() const { return 1.0 / (1.0 * batches * tokens); }
};

int coordinate(const DeviceMesh& mesh, Axis axis, int offset) {
  int place = 0;
  int scale = 1;
  for (std::size_t f = 0; f < mesh.factors.size(); ++f) {
    if ((mesh[axis].factors >> f & 1U) == 0) continue;
    place += offset / mesh.factors[f].stride % mesh.factors[f].size * scale;
    scale *= mesh.factors[f].size;
  }
  return place;
}

Tile tile_of(const Transform& transform, int offset) {
  const DeviceMesh& mesh = transform.mesh;
  const PlanDegrees& degrees = transform.degrees;
  const bool spread = degrees.sequence_parallel == SequenceParallel::On;
  Tile tile;
  tile.batches = degrees.data * degrees.tensor_depth;
  tile.batch = coordinate(mesh, Axis::Data, offset) * degrees.tensor_depth +
               coordinate(mesh, Axis::Depth, offset);
  tile.tokens = degrees.context * (spread ? degrees.tensor_out : 1);
  tile.token = coordinate(mesh, Axis::Context, offset);
  if (spread) {
    tile.token = tile.token * degrees.tensor_out + coordinate(mesh, Axis::Out, offset);
  }
  return tile;
}

/// Length of the overlap of two intervals of an evenly cut unit.
double overlap(int a, int pieces_a, int b, int pieces_b) {
  const double low = std::max(1.0 * a / pieces_a, 1.0 * b / pieces_b);
  const double high = std::min((a + 1.0) / pieces_a, (b + 1.0) / pieces_b);
  return std::max(0.0, high - low);
}

struct Holder {
  int rank = 0;
  Tile tile;
  double sent = 0.0;
};

const Transform& transform_of(const ParallelPlan& plan, const DevicePosition& place) {
  return plan.transforms[static_cast<std::size_t>(place.transform)];
}

std::vector<Holder> holders_of(const ParallelPlan& plan, const DevicePosition& place) {
  std::vector<Holder> holders;
  const Transform& transform = transform_of(plan, place);
  for (const int rank : ranks_of(transform, place.first)) {
    holders.push_back({rank, tile_of(transform, rank - place.first)});
  }
  return holders;
}

bool share_ranks(const std::vector<Holder>& a, const std::vector<Holder>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Holder& one) {
    return std::any_of(b.begin(), b.end(),
                       [&](const Holder& other) { return one.rank == other.rank; });
  });
}

/// Receivers that do not have what they need already.
std::vector<Holder> without_holders(const std::vector<Holder>& receivers,
                                    const std::vector<Holder>& senders) {
  std::vector<Holder> lacking = receivers;
  std::erase_if(lacking, [&](const Holder& receiver) {
    return std::any_of(senders.begin(), senders.end(), [&](const Holder& own) {
      if (own.rank != receiver.rank) return false;
      const double held =
          overlap(own.tile.batch, own.tile.batches, receiver.tile.batch, receiver.tile.batches) *
          overlap(own.tile.token, own.tile.tokens, receiver.tile.token, receiver.tile.tokens);
      return held > receiver.tile.area() * (1.0 - 1e-12);
    });
  });
  return lacking;
}

/// The tensors that the busiest rank sends or receives, and the widest link in use.
struct Exchange {
  double busiest = 0.0;
  int left_domain = 0;
};

Exchange exchange(const Cluster& cluster, std::vector<Holder> senders,
                  const std::vector<Holder>& receivers) {
  Exchange result;
  for (const Holder& receiver : receivers) {
    double received = 0.0;
    // Replicas of a tile stand for each other: each tile is asked of its least-loaded holder.
    std::vector<bool> served(senders.size(), false);
    for (std::size_t s = 0; s < senders.size(); ++s) {
      const Tile tile = senders[s].tile;
      const double part =
          overlap(tile.batch, tile.batches, receiver.tile.batch, receiver.tile.batches) *
          overlap(tile.token, tile.tokens, receiver.tile.token, receiver.tile.tokens);
      if (part < 1e-12 || served[s]) continue;
      std::size_t least = s;
      for (std::size_t other = s; other < senders.size(); ++other) {
        const Tile& same = senders[other].tile;
        if (same.batch != tile.batch || same.token != tile.token) continue;
        served[other] = true;
        if (senders[other].sent < senders[least].sent) least = other;
      }
      senders[least].sent += part;
      received += part;
      const int from = senders[least].rank;
      result.left_domain = std::max(result.left_domain, left_domain(cluster, [&](int domain) {
                                      return from / domain == receiver.rank / domain;
                                    }));
    }
    result.busiest = std::max(result.busiest, received);
  }
  for (const Holder& sender : senders) result.busiest = std::max(result.busiest, sender.sent);
  return result;
}

/// One direction over the network.
struct NetworkPath {
  double share = 0.0;  ///< as StageLink::forward, of the whole tensor
  RouteGather gather;
};

std::vector<TileHolder> on_hosts(const std::vector<Holder>& holders, int domain) {
  std::vector<TileHolder> result;
  const auto interval = [](int piece, int pieces) {
    return Interval{1.0 * piece / pieces, (piece + 1.0) / pieces};
  };
  for (const Holder& holder : holders) {
    const Tile& tile = holder.tile;
    result.push_back({holder.rank,
                      holder.rank / domain,
                      {interval(tile.batch, tile.batches), interval(tile.token, tile.tokens)}});
  }
  return result;
}

/// The strategy whose hosts and ranks are through first; of equal ones the simplest.
NetworkPath best_path(const LinkTier& network, int domain, const std::vector<TileHolder>& from,
                      const std::vector<TileHolder>& to) {
  // One rank sending alone has a whole card.
  const double of_card =
      network.nics ? std::min(1.0, network.bandwidth / network.nics->bandwidth) : 1.0;
  const double least = network_bound(from, to) / domain * (1.0 + 1e-9);
  std::optional<NetworkPath> best;
  for (const TransferStrategy strategy : kTransferStrategies) {
    const MeshTransfer transfer = transfer_between(from, to, strategy);
    const NetworkPath path{std::max(transfer.makespan / domain, transfer.busiest_rank * of_card),
                           {transfer.gathered, transfer.gather_ranks}};
    if (!best || path.share < best->share * (1.0 - 1e-9)) best = path;
    if (best->share <= least) break;  // none is through before
  }
  return *best;
}

/// The fabric that joins domains of so many ranks; null where other links do.
const LinkTier* network_over(const Cluster& cluster, int domain) {
  for (std::size_t i = 0; i + 1 < cluster.tiers.size(); ++i) {
    if (cluster.tiers[i].size == domain && cluster.tiers[i + 1].is_fabric()) {
      return &cluster.tiers[i + 1];
    }
  }
  return nullptr;
}

/// One direction between ends that share ranks: those that lack a tile get it from one another, so
/// that no rank sends or receives more than once what it has in the end.
void route_among(const Cluster& cluster, const std::vector<Holder>& senders,
                 const std::vector<Holder>& receivers, double tile, StageLink& route, double& share,
                 RouteGather& gather) {
  const std::vector<Holder> lacking = without_holders(receivers, senders);
  share = 0.0;
  if (lacking.empty()) return;
  const Exchange messages = exchange(cluster, senders, lacking);
  route.left_domain = std::max(route.left_domain, messages.left_domain);
  share = std::min(messages.busiest, lacking.front().tile.area()) / tile;
  const LinkTier* network = network_over(cluster, messages.left_domain);
  if (network == nullptr) return;
  const NetworkPath path =
      best_path(*network, messages.left_domain, on_hosts(senders, messages.left_domain),
                on_hosts(lacking, messages.left_domain));
  share = path.share / tile;
  gather = {path.gather.tiles / tile, path.gather.ranks};
}

StageLink shared_route(const Cluster& cluster, const std::vector<Holder>& senders,
                       const std::vector<Holder>& receivers) {
  const double tile = senders.front().tile.area();
  StageLink route{0, 0.0, 0.0};
  route_among(cluster, senders, receivers, tile, route, route.forward, route.forward_gather);
  route_among(cluster, receivers, senders, tile, route, route.backward, route.backward_gather);
  return route;
}

StageLink exchange_route(const Cluster& cluster, const std::vector<Holder>& senders,
                         const std::vector<Holder>& receivers) {
  if (share_ranks(senders, receivers)) return shared_route(cluster, senders, receivers);
  const Exchange forward = exchange(cluster, senders, receivers);
  const Exchange backward = exchange(cluster, receivers, senders);
  const double tile = senders.front().tile.area();
  StageLink route{std::max(forward.left_domain, backward.left_domain), forward.busiest / tile,
                  backward.busiest / tile};
  if (const LinkTier* network = network_over(cluster, route.left_domain)) {
    const auto sending = on_hosts(senders, route.left_domain);
    const auto receiving = on_hosts(receivers, route.left_domain);
    const NetworkPath there = best_path(*network, route.left_domain, sending, receiving);
    const NetworkPath back = best_path(*network, route.left_domain, receiving, sending);
    route.forward = there.share / tile;
    route.backward = back.share / tile;
    route.forward_gather = {there.gather.tiles / tile, there.gather.ranks};
    route.backward_gather = {back.gather.tiles / tile, back.gather.ranks};
  }
  return route;
}

}  // namespace

bool pair_up(const DeviceMesh& a, const PlanDegrees& degrees_a, const DeviceMesh& b,
             const PlanDegrees& degrees_b) {
  return degrees_a.sequence_parallel == degrees_b.sequence_parallel && a == b;
}

StageLink boundary_route(const Cluster& cluster, const ParallelPlan& plan, int from, int to) {
  const auto& places = plan.assignment->positions;
  return boundary_route(cluster, plan, places[static_cast<std::size_t>(from)],
                        places[static_cast<std::size_t>(to)]);
}

StageLink boundary_route(const Cluster& cluster, const ParallelPlan& plan,
                         const DevicePosition& sender, const DevicePosition& receiver) {
  if (sender == receiver) return {0, 0.0, 0.0};
  const Transform& sends = transform_of(plan, sender);
  const Transform& receives = transform_of(plan, receiver);
  if (pair_up(sends.mesh, sends.degrees, receives.mesh, receives.degrees)) {
    const RankRuns runs = runs_of(sends.mesh);
    const int distance = receiver.first - sender.first;
    return {
        left_domain(cluster,
                    [&](int domain) { return pairs_stay(runs, sender.first, distance, domain); }),
        1.0, 1.0};
  }
  return exchange_route(cluster, holders_of(plan, sender), holders_of(plan, receiver));
}

}  // namespace plansearch
