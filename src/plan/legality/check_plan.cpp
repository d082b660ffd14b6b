// SPDX-License-Identifier: Apache-2.0
// Whether a plan contradicts itself or does not fit its network, its devices or its batch.
#include <fmt/format.h>

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
  for (std::size_t k = 0; k < assignment.groups.size(); ++k) {
    const std::vector<BlockRun>& blocks = assignment.groups[k].blocks;
    held.insert(held.end(), blocks.begin(), blocks.end());
    if ((k + 1) % assignment.groups_per_replica() != 0) continue;
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
  return std::nullopt;
}

}  // namespace plansearch
