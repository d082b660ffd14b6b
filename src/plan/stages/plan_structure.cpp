// SPDX-License-Identifier: Apache-2.0
// One check for each promise of plansearch/plan.hpp (tests/unit/evaluate/any_plan_test.cpp).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/checked.hpp"
#include "plan/legality/legality_parts.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plan/stages/expand.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "schedule/order/stage_places.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

using legality::broken;

using Result = std::optional<Infeasible>;

/// Beyond any machine and any batch, and small enough for products of two.
constexpr std::int64_t kMostNumber = std::int64_t{1} << 30;
constexpr AxisSet kDense{Axis::In, Axis::Out, Axis::Depth, Axis::Context, Axis::Data};

bool contains(std::size_t count, int index) {
  return index >= 0 && static_cast<std::size_t>(index) < count;
}

Result check_order(const ParallelPlan& plan) {
  if (!is_schedule(plan.order.schedule)) {
    return broken("the plan names a schedule that does not exist");
  }
  if (plan.order.micro_batches < 1) return broken("the plan has no micro-batches");
  return std::nullopt;
}

Result check_degrees(const Transform& transform, const ParallelPlan& plan, const Network& network) {
  const PlanDegrees& d = transform.degrees;
  if (auto bad = check_range(d)) return bad;
  const Assignment& assignment = *plan.assignment;
  if (d.pipeline != assignment.stages() || d.chunks != assignment.chunks) {
    return broken(fmt::format("degrees for {} stages of {} chunks, positions for {} of {}",
                              d.pipeline, d.chunks, assignment.stages(), assignment.chunks));
  }
  if (d.micro_batches != plan.order.micro_batches || d.schedule != plan.order.schedule) {
    return broken("the degrees of a transform and the order of the plan differ");
  }
  if (const auto& placements = transform.placements) {
    bool on_mesh = placements->factors.size() <= kMostFactors;
    for (std::size_t f = 0; on_mesh && f < placements->factors.size(); ++f) {
      on_mesh = placements->factors[f] > 1 &&
                transform.mesh[factor_axis(f)].size == placements->factors[f];
    }
    if (!on_mesh) return broken("the factors of the placements are not axes of the mesh");
  }
  if (d.temporal == Temporal::Ring && d.tensor_out > 1 &&
      (!transform.placements || *transform.placements != *ring_placements(network, d.tensor_out))) {
    return broken("the degrees of a transform say rings, its placements do not");
  }
  if (transform.mesh.size(kDense) != devices_of(transform)) {
    return broken(fmt::format("a mesh of {} ranks for degrees of {}", transform.mesh.size(kDense),
                              devices_of(transform)));
  }
  return std::nullopt;
}

Result check_indices(const ParallelPlan& plan, const Network& network) {
  const Assignment& assignment = *plan.assignment;
  for (const DevicePosition& position : assignment.positions) {
    if (contains(plan.transforms.size(), position.transform)) continue;
    return broken(fmt::format("a position names transform {} of {}", position.transform,
                              plan.transforms.size()));
  }
  const std::size_t slots =
      assignment.positions.size() * static_cast<std::size_t>(assignment.held());
  if (assignment.groups.size() != slots) {
    return broken(fmt::format("{} groups for {} chunks of {} positions", assignment.groups.size(),
                              assignment.held(), assignment.positions.size()));
  }
  for (const OperatorGroup& group : assignment.groups) {
    if (!contains(assignment.positions.size(), group.position) || group.chunk < 0 ||
        group.chunk >= assignment.held()) {
      return broken(fmt::format("a group lies at chunk {} of position {}, which does not exist",
                                group.chunk, group.position));
    }
    for (const BlockRun& run : group.blocks) {
      if (run.block < network.blocks.size() && run.count >= 0) continue;
      return broken(fmt::format("{} has no block {}", network.name, run.block));
    }
  }
  return std::nullopt;
}

/// Rules of an order speak of passes that are there.
Result check_rules(const ParallelPlan& plan) {
  const Assignment& assignment = *plan.assignment;
  if (!plan.order.window) return std::nullopt;
  if (assignment.replicas > 1) return broken("a window beside several replicas of the network");
  const std::size_t stops =
      assignment.gangs.empty() ? assignment.groups.size() : assignment.stops.size();
  for (const OrderRule& rule : plan.order.rules) {
    if (rule.first.stop >= stops || rule.second.stop >= stops) {
      return broken("a rule of the order names a pass that is not there");
    }
  }
  return std::nullopt;
}

/// The indices of an assignment must be those that `index_contents` makes for this network.
Result check_tables(const Assignment& assignment, const Network& network) {
  Assignment again;
  again.positions = assignment.positions;
  again.groups = assignment.groups;
  again.chunks = assignment.chunks;
  again.replicas = assignment.replicas;
  again.skips = assignment.skips;
  again.gangs = assignment.gangs;
  index_contents(again, network);
  if (again == assignment) return std::nullopt;
  return broken(fmt::format("the plan was made for another network than {}", network.name));
}

/// The ranks of a position; its first one may be any number.
std::vector<std::int64_t> ranks_at(const ParallelPlan& plan, const DevicePosition& position) {
  const Transform& transform = plan.transforms[static_cast<std::size_t>(position.transform)];
  std::vector<std::int64_t> ranks{position.first};
  for (const AxisExtent& extent : process_group(transform.mesh, kDense).extents) {
    const std::size_t inner = ranks.size();
    for (int i = 1; i < extent.size; ++i) {
      for (std::size_t r = 0; r < inner; ++r) {
        ranks.push_back(ranks[r] + std::int64_t{i} * extent.stride);
      }
    }
  }
  return ranks;
}

/// Gangs stand among the groups of one replica, on devices of whole positions.
Result check_gangs(const ParallelPlan& plan, const Network& network) {
  const Assignment& assignment = *plan.assignment;
  if (assignment.gangs.empty()) return std::nullopt;
  if (assignment.replicas > 1) return broken("gangs beside several replicas of the network");
  if (!plan.order.window) return broken("gangs in an order that knows of none");
  std::size_t before = 0;
  for (const Gang& gang : assignment.gangs) {
    if (!contains(plan.transforms.size(), gang.place.transform)) {
      return broken("a gang names a transform that is not there");
    }
    if (gang.before < before || gang.before > assignment.groups.size()) {
      return broken("gangs are not in the order in which micro-batches pass them");
    }
    before = gang.before;
    std::vector<std::int64_t> held;
    for (const int position : gang.positions) {
      if (!contains(assignment.positions.size(), position)) {
        return broken("a gang names a stage that is not there");
      }
      const auto ranks = ranks_at(plan, assignment.positions[static_cast<std::size_t>(position)]);
      held.insert(held.end(), ranks.begin(), ranks.end());
    }
    std::ranges::sort(held);
    std::vector<std::int64_t> own = ranks_at(plan, gang.place);
    std::ranges::sort(own);
    if (own != held) return broken("the mesh of a gang is not the devices of its stages");
    for (const BlockRun& run : gang.blocks) {
      if (run.block < network.blocks.size() && run.count >= 0) continue;
      return broken(fmt::format("{} has no block {}", network.name, run.block));
    }
  }
  return std::nullopt;
}

/// Every rank belongs to one position.
Result check_ranks(const ParallelPlan& plan) {
  const auto& positions = plan.assignment->positions;
  const int devices = plan.devices();
  std::vector<int> holder(static_cast<std::size_t>(devices), -1);
  Result beyond;
  for (std::size_t p = 0; p < positions.size(); ++p) {
    for (const std::int64_t rank : ranks_at(plan, positions[p])) {
      if (rank < 0 || rank >= devices) {
        if (!beyond) beyond = broken(fmt::format("stage {} reaches rank {}", p, rank));
        if (!beyond->stage) beyond->stage = static_cast<int>(p);
        continue;
      }
      int& held = holder[static_cast<std::size_t>(rank)];
      if (held >= 0) {
        Infeasible twice =
            broken(fmt::format("rank {} belongs to stage {} and to stage {}", rank, held, p));
        twice.stage = static_cast<int>(p);
        return twice;
      }
      held = static_cast<int>(p);
    }
  }
  if (!beyond) return std::nullopt;
  // As many ranks as devices: one beyond the last leaves a gap.
  const auto gap = std::ranges::find(holder, -1) - holder.begin();
  beyond->detail += fmt::format(" of {} devices, and rank {} belongs to no stage", devices, gap);
  return beyond;
}

}  // namespace

std::optional<Infeasible> check_range(const PlanDegrees& d) {
  const auto refused = [](double value) {
    return Infeasible{
        .obstacle = Obstacle::DegreesDoNotMultiply,
        .needed = 1,
        .available = value,
        .detail = fmt::format("degrees and their products must be from 1 to {}", kMostNumber)};
  };
  for (const int open : {d.shard_group, d.recompute_layers}) {
    if (open < 0) return refused(open);
  }
  // Degrees that are multiplied with each other somewhere.
  const std::array<std::vector<int>, 4> products{
      {{d.data, d.pipeline, d.tensor_in, d.tensor_out, d.tensor_depth, d.context},
       {d.pipeline, d.chunks},
       {d.expert, d.expert_tensor},
       {d.micro_batch, d.micro_batches}}};
  for (const std::vector<int>& factors : products) {
    if (product_within(kMostNumber, factors)) continue;
    double product = 1.0;
    for (const int factor : factors) product *= std::max(factor, 0);
    return refused(product);
  }
  return std::nullopt;
}

std::optional<Infeasible> check_structure(const ParallelPlan& plan, const Network& network) {
  if (!plan.assignment || plan.transforms.empty() || plan.assignment->positions.empty() ||
      plan.assignment->chunks < 1 || plan.assignment->replicas < 1) {
    return broken("the plan assigns nothing to any device");
  }
  if (auto bad = check_order(plan)) return bad;
  for (const Transform& transform : plan.transforms) {
    if (auto bad = check_degrees(transform, plan, network)) return bad;
  }
  if (auto bad = check_indices(plan, network)) return bad;
  if (auto bad = check_gangs(plan, network)) return bad;
  if (auto bad = check_tables(*plan.assignment, network)) return bad;
  if (auto bad = check_ranks(plan)) return bad;
  return check_rules(plan);
}

std::optional<Infeasible> check_pipeline(const ParallelPlan& plan, const Framework& framework,
                                         const Network& network) {
  const PipelineShape shape = pipeline_shape(plan.transforms.front().degrees, framework, network);
  if (auto bad = obstacle_of(shape)) return bad;
  const std::span<const StagePlace> places = stage_places(shape);
  if (places.size() != plan.assignment->groups.size()) {
    return broken(fmt::format("{} holds the network {} times, not {}", to_text(shape.schedule),
                              places.size() / plan.assignment->groups_per_replica(),
                              plan.assignment->replicas));
  }
  for (std::size_t k = 0; k < places.size(); ++k) {
    const OperatorGroup& group = plan.assignment->groups[k];
    if (places[k].device == group.position && places[k].chunk == group.chunk) continue;
    return broken(fmt::format("{} runs group {} as chunk {} of position {}, not {} of {}",
                              to_text(shape.schedule), k, places[k].chunk, places[k].device,
                              group.chunk, group.position));
  }
  return std::nullopt;
}

}  // namespace plansearch
