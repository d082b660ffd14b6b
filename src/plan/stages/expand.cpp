// SPDX-License-Identifier: Apache-2.0
// Computes: the assignment and transforms of a plan from degrees.
// Source: placement of virtual stages by the schedule's row; layers by the framework's rule.
// Assumes: positions of a uniform plan differ in their pipeline coordinate only.
// Units: ranks, sequences, copies of blocks.
// Checked by: tests/unit/plan/expand_test.cpp
#include "plan/stages/expand.hpp"

#include <algorithm>

#include "plan/placements/ring_placements.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "schedule/order/stage_places.hpp"

namespace plansearch {
namespace {

GroupContent content_of(const std::vector<BlockRun>& blocks, int transform, std::size_t count,
                        GroupEdges edges) {
  GroupContent content{.transform = transform,
                       .copies = std::vector<double>(count, 0.0),
                       .blocks = blocks,
                       .edges = std::move(edges)};
  for (const BlockRun& run : blocks) {
    content.copies[run.block] += static_cast<double>(run.count);
    content.last_block = run.block;
  }
  return content;
}

}  // namespace

std::vector<BlockRun> joined(const std::vector<BlockRun>& runs) {
  std::vector<BlockRun> result;
  for (const BlockRun& run : runs) {
    if (run.count == 0) continue;
    if (!result.empty() && result.back().block == run.block) {
      result.back().count += run.count;
    } else {
      result.push_back(run);
    }
  }
  return result;
}

namespace {

/// Groups and gangs in the order in which micro-batches pass them; nothing without gangs.
std::vector<Stop> stops_of(const Assignment& assignment) {
  std::vector<Stop> stops;
  if (assignment.gangs.empty()) return stops;
  std::size_t gang = 0;
  for (std::size_t k = 0; k <= assignment.groups.size(); ++k) {
    for (; gang < assignment.gangs.size() && assignment.gangs[gang].before == k; ++gang) {
      stops.push_back({gang, true});
    }
    if (k < assignment.groups.size()) stops.push_back({k, false});
  }
  return stops;
}

int add_content(Assignment& assignment, GroupContent content) {
  auto& known = assignment.contents;
  const auto same = std::ranges::find(known, content);
  const auto number = static_cast<int>(same - known.begin());
  if (same == known.end()) known.push_back(std::move(content));
  return number;
}

/// Contents of every stop. Micro-batches pass the blocks of all stops in the order of the network.
void index_stops(Assignment& assignment, const Network& network,
                 const std::vector<SharedTensor>& tensors) {
  std::int64_t next = 0;
  for (const Stop& stop : assignment.stops) {
    const auto make = [&](const std::vector<BlockRun>& blocks, int transform) {
      GroupContent content =
          content_of(blocks, transform, network.blocks.size(),
                     group_edges(network, tensors, blocks, next, assignment.skips));
      next += copies_of(blocks);
      return add_content(assignment, std::move(content));
    };
    if (stop.gang) {
      Gang& gang = assignment.gangs[stop.index];
      gang.content = make(gang.blocks, gang.place.transform);
      continue;
    }
    OperatorGroup& group = assignment.groups[stop.index];
    const auto position = static_cast<std::size_t>(group.position);
    group.content = make(group.blocks, assignment.positions[position].transform);
    assignment.contents_of[position][static_cast<std::size_t>(group.chunk)] = group.content;
  }
  for (const Gang& gang : assignment.gangs) {
    for (const int position : gang.positions) {
      assignment.contents_of[static_cast<std::size_t>(position)].push_back(gang.content);
    }
  }
}

/// The stops as groups: their blocks alone matter.
std::vector<OperatorGroup> as_groups(const Assignment& assignment) {
  std::vector<OperatorGroup> groups;
  for (const Stop& stop : assignment.stops) {
    groups.push_back(
        {0, 0,
         stop.gang ? assignment.gangs[stop.index].blocks : assignment.groups[stop.index].blocks});
  }
  return groups;
}

/// Positions that hold the same.
void index_kinds(Assignment& assignment) {
  const auto& held = assignment.contents_of;
  for (std::size_t p = 0; p < held.size(); ++p) {
    const auto same = std::ranges::find_if(
        assignment.kinds, [&](int q) { return held[static_cast<std::size_t>(q)] == held[p]; });
    assignment.kind_of.push_back(static_cast<int>(same - assignment.kinds.begin()));
    if (same == assignment.kinds.end()) assignment.kinds.push_back(static_cast<int>(p));
  }
}

}  // namespace

void index_contents(Assignment& assignment, const Network& network, std::int64_t first) {
  const std::vector<SharedTensor> tensors = shared_tensors(network);
  assignment.stops = stops_of(assignment);
  const bool gangs = !assignment.gangs.empty();
  if (assignment.skips == SkipRoute::Direct) {
    assignment.direct =
        gangs ? direct_messages(network, tensors, as_groups(assignment), assignment.stops.size(), 0)
              : direct_messages(network, tensors, assignment.groups,
                                assignment.groups_per_replica(), first);
  }
  assignment.contents_of.assign(assignment.positions.size(),
                                std::vector<int>(static_cast<std::size_t>(assignment.held()), -1));
  if (gangs) {
    index_stops(assignment, network, tensors);
    return index_kinds(assignment);
  }
  std::int64_t next = first;
  for (std::size_t k = 0; k < assignment.groups.size(); ++k) {
    OperatorGroup& group = assignment.groups[k];
    if (k % assignment.groups_per_replica() == 0) next = first;
    const auto position = static_cast<std::size_t>(group.position);
    GroupContent content =
        content_of(group.blocks, assignment.positions[position].transform, network.blocks.size(),
                   group_edges(network, tensors, group.blocks, next, assignment.skips));
    if (!tensors.empty()) next += copies_of(group.blocks);
    group.content = add_content(assignment, std::move(content));
    assignment.contents_of[position][static_cast<std::size_t>(group.chunk)] = group.content;
  }
  index_kinds(assignment);
}

int devices_of(const Transform& transform) {
  return transform.degrees.stage_ranks();
}

std::vector<int> ranks_of(const ParallelPlan& plan, int position) {
  return ranks_of(plan.transform_at(position),
                  plan.assignment->positions[static_cast<std::size_t>(position)].first);
}

std::vector<int> ranks_of(const Transform& transform, int first) {
  constexpr AxisSet kDevices{Axis::In, Axis::Out, Axis::Depth, Axis::Context, Axis::Data};
  std::vector<int> ranks{first};
  for (const AxisExtent& extent : process_group(transform.mesh, kDevices).extents) {
    const std::size_t inner = ranks.size();
    for (int i = 1; i < extent.size; ++i) {
      for (std::size_t k = 0; k < inner; ++k) ranks.push_back(ranks[k] + i * extent.stride);
    }
  }
  return ranks;
}

bool Assignment::runs_at(std::size_t stop, int position) const {
  const Gang* gang = gang_at(stop);
  if (gang == nullptr) return group_at(stop).position == position;
  return std::ranges::find(gang->positions, position) != gang->positions.end();
}

int ParallelPlan::devices() const {
  int sum = 0;
  for (int p = 0; p < assignment->stages(); ++p) sum += devices_of(transform_at(p));
  return sum;
}

const Transform& ParallelPlan::transform_at(int position) const {
  const DevicePosition& place = assignment->positions[static_cast<std::size_t>(position)];
  return transforms[static_cast<std::size_t>(place.transform)];
}

bool Transform::operator==(const Transform& other) const {
  if (!(degrees == other.degrees) || !(mesh == other.mesh)) return false;
  if (!placements || !other.placements) return placements == other.placements;
  return *placements == *other.placements;
}

bool ParallelPlan::operator==(const ParallelPlan& other) const {
  return transforms == other.transforms && order == other.order &&
         (assignment == other.assignment || *assignment == *other.assignment);
}

std::variant<std::shared_ptr<const Assignment>, Infeasible> uniform_assignment(
    const PlanDegrees& degrees, const Network& network, const Framework& framework, int stride) {
  const auto distribution = distribute_layers(network, degrees, framework);
  if (const auto* infeasible = std::get_if<Infeasible>(&distribution)) return *infeasible;
  const StageRuns& runs = std::get<StageRuns>(distribution);
  auto assignment = std::make_shared<Assignment>();
  assignment->chunks = degrees.chunks;
  assignment->skips = framework.skips;
  for (int p = 0; p < degrees.pipeline; ++p) assignment->positions.push_back({0, p * stride});
  const std::span<const StagePlace> places =
      stage_places(pipeline_shape(degrees, framework, network));
  assignment->replicas = static_cast<int>(places.size() / runs.size());
  for (std::size_t k = 0; k < places.size(); ++k) {
    assignment->groups.push_back({places[k].device, places[k].chunk, runs[k % runs.size()]});
  }
  index_contents(*assignment, network);
  return assignment;
}

Transform make_transform(const PlanDegrees& degrees, DeviceMesh mesh, const Network& network) {
  Transform transform{degrees, std::move(mesh)};
  if (degrees.temporal == Temporal::None || degrees.tensor_out == 1) return transform;
  transform.placements = ring_placements(network, degrees.tensor_out);
  transform.mesh = with_factors(std::move(transform.mesh), transform.placements->factors);
  return transform;
}

std::variant<ParallelPlan, Infeasible> expand(const PlanDegrees& degrees, const Network& network,
                                              const Framework& framework) {
  ParallelPlan plan;
  plan.transforms.push_back(
      make_transform(degrees, make_device_mesh(degrees, framework.rank_order), network));
  plan.order = {degrees.schedule, degrees.micro_batches};
  const int stride = plan.transforms.front().mesh.neighbour_distance(Axis::Pipeline);
  auto assignment = uniform_assignment(degrees, network, framework, stride);
  if (auto* infeasible = std::get_if<Infeasible>(&assignment)) return std::move(*infeasible);
  plan.assignment = std::move(std::get<0>(assignment));
  return plan;
}

}  // namespace plansearch
