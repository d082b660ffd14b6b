// SPDX-License-Identifier: Apache-2.0
// Whether a plan contradicts itself or does not fit its network, its devices or its batch.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plan/legality/legality.hpp"
#include "plan/stages/expand.hpp"

namespace plansearch {
namespace {

Infeasible refuse(Obstacle obstacle, double needed, double available, std::string detail) {
  return {
      .obstacle = obstacle, .needed = needed, .available = available, .detail = std::move(detail)};
}

std::optional<Infeasible> check_blocks(const Assignment& assignment, const Network& network) {
  const std::vector<BlockRun> wanted = joined(network.order);
  std::vector<BlockRun> held;
  bool right = true;
  const auto take = [&](const std::vector<BlockRun>& blocks) {
    held.insert(held.end(), blocks.begin(), blocks.end());
  };
  std::size_t gang = 0;
  const auto take_gangs = [&](std::size_t before) {
    const auto& gangs = assignment.gangs;
    for (; gang < gangs.size() && gangs[gang].before == before; ++gang) take(gangs[gang].blocks);
  };
  for (std::size_t k = 0; k < assignment.groups.size(); ++k) {
    take_gangs(k);
    take(assignment.groups[k].blocks);
    if ((k + 1) % assignment.groups_per_replica() != 0) continue;
    take_gangs(k + 1);
    right = right && joined(held) == wanted;
    if (right) held.clear();
  }
  if (right) return std::nullopt;
  const auto count = [](const std::vector<BlockRun>& runs) {
    return std::accumulate(runs.begin(), runs.end(), std::int64_t{0},
                           [](std::int64_t sum, const BlockRun& run) { return sum + run.count; });
  };
  return refuse(Obstacle::LayersNotDivisible, static_cast<double>(count(network.order)),
                static_cast<double>(count(held)),
                fmt::format("the groups hold {} blocks, {} has {} in its own order", count(held),
                            network.name, count(network.order)));
}

/// The network without the operators that a gang does not hold, and without their dimensions.
Network part_of(const Network& network, const std::vector<BlockRun>& blocks) {
  Network part = network;
  std::vector<bool> used(network.dimensions.size(), false);
  for (std::size_t b = 0; b < part.blocks.size(); ++b) {
    const bool held =
        std::ranges::any_of(blocks, [&](const BlockRun& run) { return run.block == b; });
    if (!held) part.blocks[b].operators.clear();
    for (const Operator& op : part.blocks[b].operators) {
      for (const DimId dim : op.loop) used[static_cast<std::size_t>(dim)] = true;
    }
  }
  for (std::size_t d = 0; d < used.size(); ++d) {
    if (!used[d]) part.dimensions[d].role = DimRole::Other;
  }
  return part;
}

/// Gangs are split as their own blocks allow.
std::optional<Infeasible> check_gangs(const ParallelPlan& plan, const Network& network,
                                      const Framework& framework, std::int64_t batch,
                                      DataType precision) {
  for (const Gang& gang : plan.assignment->gangs) {
    const PlanDegrees& d = plan.transforms[static_cast<std::size_t>(gang.place.transform)].degrees;
    const Network part = part_of(network, gang.blocks);
    if (auto bad = check_transform(d, part, framework, precision)) {
      bad->detail =
          fmt::format("{} on {} devices together: {}",
                      network.blocks[gang.blocks.front().block].name, d.stage_ranks(), bad->detail);
      return bad;
    }
    if (d.global_batch() == batch) continue;
    return refuse(Obstacle::BatchNotDivisible, static_cast<double>(d.global_batch()),
                  static_cast<double>(batch), "a gang takes another batch than its stages");
  }
  return std::nullopt;
}

/// Between stages of unlike meshes residual streams are exchanged as rules by role cut them.
std::optional<Infeasible> check_edges(const ParallelPlan& plan) {
  for (const Transform& transform : plan.transforms) {
    if (!transform.placements || plan.transforms.size() == 1) continue;
    for (const BlockChoice& block : transform.placements->blocks) {
      if (!block.leaving && !block.entering) continue;
      return refuse(Obstacle::NoSuchFeature, 0, 0,
                    "edges of layers are cut by placements only where all stages are split alike");
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Infeasible> check_assignment(const ParallelPlan& plan, const Network& network,
                                           int gpus) {
  if (auto bad = check_blocks(*plan.assignment, network)) return bad;
  if (plan.devices() == gpus) return std::nullopt;
  return refuse(Obstacle::DegreesDoNotMultiply, plan.devices(), gpus,
                fmt::format("the stages take {} devices together, not {}", plan.devices(), gpus));
}

std::optional<Infeasible> check_plan(const ParallelPlan& plan, const Network& network,
                                     const Framework& framework, int gpus, std::int64_t batch,
                                     DataType precision) {
  if (auto bad = check_structure(plan, network)) return bad;
  if (auto bad = check_assignment(plan, network, gpus)) return bad;
  if (auto bad = check_pipeline(plan, framework, network)) return bad;
  if (auto bad = check_edges(plan)) return bad;
  for (int p = 0; p < plan.assignment->stages(); ++p) {
    const PlanDegrees& d = plan.transform_at(p).degrees;
    const Placements* placements = plan.transform_at(p).placements.get();
    if (auto bad = check_transform(d, network, framework, precision, placements)) {
      bad->stage = p;
      return bad;
    }
    const std::int64_t taken = d.global_batch();
    if (taken != batch) {
      return refuse(Obstacle::BatchNotDivisible, static_cast<double>(taken),
                    static_cast<double>(batch),
                    fmt::format("the plan takes {} sequences per step, not {}", taken, batch));
    }
  }
  return check_gangs(plan, network, framework, batch, precision);
}

}  // namespace plansearch
