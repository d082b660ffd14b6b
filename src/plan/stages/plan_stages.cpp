// SPDX-License-Identifier: Apache-2.0
// Computes: plans from stages listed one by one, and the stages of a plan.
// Source: every stage has a mesh of its own; virtual stages lie as the schedule's row places them.
// Assumes: stages that are split alike form one mesh with a pipeline axis, as uniform plans do.
// Units: ranks, sequences, copies of blocks.
// Checked by: tests/unit/plan/expand_test.cpp, tests/unit/question/spelled_plan_test.cpp
#include "plansearch/plan_stages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/legality/legality_parts.hpp"
#include "plan/placements/check_placements.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plan/stages/expand.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/placements.hpp"
#include "schedule/order/stage_places.hpp"

namespace plansearch {
namespace {

Infeasible refuse(Obstacle obstacle, double needed, double available, std::size_t stage,
                  std::string detail) {
  Infeasible infeasible{obstacle, needed, available, std::move(detail)};
  infeasible.stage = static_cast<int>(stage);
  return infeasible;
}

std::optional<Infeasible> check_stage(std::span<const StageDescription> stages, std::size_t s,
                                      Order order, std::int64_t batch, const Framework& framework,
                                      const Network& network) {
  const StageDescription& stage = stages[s];
  PlanDegrees d = stage.degrees;
  d.pipeline = static_cast<int>(stages.size());
  auto bad = check_range(d);
  if (!bad) bad = legality::check_axes(d, framework);
  if (bad) {
    bad->stage = static_cast<int>(s);
    return bad;
  }
  const std::size_t chunks = stages.front().chunks.size();
  if (stage.chunks.size() != chunks) {
    return refuse(Obstacle::NoSuchFeature, static_cast<double>(stage.chunks.size()),
                  static_cast<double>(chunks), s,
                  fmt::format("stage {} has {} chunks, stage 0 has {}: all have as many", s,
                              stage.chunks.size(), chunks));
  }
  for (const auto& chunk : stage.chunks) {
    for (const BlockRun& run : chunk) {
      if (run.block < network.blocks.size() && run.count >= 0) continue;
      return refuse(Obstacle::NoSuchFeature, static_cast<double>(run.block),
                    static_cast<double>(network.blocks.size()), s,
                    fmt::format("stage {}: {} has no block {}", s, network.name, run.block));
    }
  }
  const std::int64_t shares = std::int64_t{1} * order.micro_batches * d.data * d.tensor_depth;
  if (shares > 0 && batch % shares == 0) return std::nullopt;
  return refuse(
      Obstacle::BatchNotDivisible, static_cast<double>(shares), static_cast<double>(batch), s,
      fmt::format("stage {}: a batch of {} in {} micro-batches over {} data ranks is {:.4g} "
                  "sequences each; the share of a micro-batch must be whole",
                  s, batch, order.micro_batches, d.data * d.tensor_depth,
                  static_cast<double>(batch) / static_cast<double>(shares)));
}

/// The meshes of the stages, and the first rank each has unless it is told another.
struct StageMeshes {
  std::vector<DeviceMesh> meshes;
  std::vector<int> first;
};

StageMeshes meshes_of(std::span<const StageDescription> stages, const Framework& framework) {
  StageMeshes result;
  int next = 0;
  for (const StageDescription& stage : stages) {
    PlanDegrees alone = stage.degrees;
    alone.pipeline = 1;
    result.meshes.push_back(make_device_mesh(alone, framework.rank_order));
    result.first.push_back(next);
    next += alone.devices();
  }
  const auto& meshes = result.meshes;
  const bool alike =
      std::ranges::all_of(meshes, [&](const DeviceMesh& mesh) { return mesh == meshes.front(); });
  if (alike) {
    PlanDegrees whole = stages.front().degrees;
    whole.pipeline = static_cast<int>(stages.size());
    const DeviceMesh mesh = make_device_mesh(whole, framework.rank_order);
    std::ranges::fill(result.meshes, mesh);
    const int stride = mesh.neighbour_distance(Axis::Pipeline);
    for (std::size_t s = 0; s < stages.size(); ++s) result.first[s] = static_cast<int>(s) * stride;
  }
  for (DeviceMesh& mesh : result.meshes) mesh.ranks = next;
  return result;
}

}  // namespace

std::vector<NamedBlocks> named_blocks(const std::vector<BlockRun>& runs, const Network& network) {
  std::vector<NamedBlocks> named;
  for (const BlockRun& run : runs) {
    const std::string name = plain_block_name(network.blocks[run.block].name);
    if (!named.empty() && named.back().block == name) {
      named.back().count += run.count;
    } else {
      named.push_back({name, run.count});
    }
  }
  return named;
}

std::int64_t layers_of(const StageDescription& stage, const Network& network) {
  std::int64_t layers = 0;
  for (const std::vector<BlockRun>& chunk : stage.chunks) {
    for (const BlockRun& run : chunk) {
      if (is_layer(network.blocks[run.block].kind)) layers += run.count;
    }
  }
  return layers;
}

std::variant<ParallelPlan, Infeasible> plan_of_stages(std::span<const StageDescription> stages,
                                                      Order order, std::int64_t batch,
                                                      const Framework& framework,
                                                      const Network& network) {
  if (stages.empty() || order.micro_batches < 1) {
    return refuse(Obstacle::DegreesDoNotMultiply, 1, 0, 0, "a plan has stages and micro-batches");
  }
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (auto bad = check_stage(stages, s, order, batch, framework, network)) return *std::move(bad);
  }
  StageMeshes placed = meshes_of(stages, framework);
  ParallelPlan plan;
  plan.order = order;
  auto assignment = std::make_shared<Assignment>();
  assignment->chunks = static_cast<int>(stages.front().chunks.size());
  assignment->skips = framework.skips;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    PlanDegrees degrees = stages[s].degrees;
    degrees.pipeline = static_cast<int>(stages.size());
    degrees.chunks = assignment->chunks;
    degrees.schedule = order.schedule;
    degrees.micro_batches = order.micro_batches;
    degrees.micro_batch = static_cast<int>(
        batch / (std::int64_t{1} * order.micro_batches * degrees.data * degrees.tensor_depth));
    Transform transform = make_transform(degrees, std::move(placed.meshes[s]), network);
    const auto same = std::ranges::find(plan.transforms, transform);
    assignment->positions.push_back({static_cast<int>(same - plan.transforms.begin()),
                                     stages[s].first_rank.value_or(placed.first[s])});
    if (same == plan.transforms.end()) plan.transforms.push_back(std::move(transform));
  }
  const PipelineShape shape = pipeline_shape(plan.transforms.front().degrees, framework, network);
  if (auto bad = obstacle_of(shape)) return *std::move(bad);
  const std::span<const StagePlace> places = stage_places(shape);
  const std::size_t replica = stages.size() * stages.front().chunks.size();
  assignment->replicas = static_cast<int>(places.size() / replica);
  for (std::size_t k = 0; k < places.size(); ++k) {
    const StagePlace& said = places[k % replica];  // all replicas hold the same as the first
    const StageDescription& stage = stages[static_cast<std::size_t>(said.device)];
    assignment->groups.push_back({places[k].device, places[k].chunk,
                                  joined(stage.chunks[static_cast<std::size_t>(said.chunk)])});
  }
  index_contents(*assignment, network);
  plan.assignment = std::move(assignment);
  return plan;
}

std::variant<ParallelPlan, Infeasible> with_placements(ParallelPlan plan,
                                                       const Placements& placements,
                                                       const Network& network,
                                                       const Framework& framework) {
  const auto merged = std::make_shared<const Placements>(with_merged_factors(placements));
  for (std::size_t t = 0; t < plan.transforms.size(); ++t) {
    Transform& transform = plan.transforms[t];
    if (auto bad = check_placements(*merged, network, transform.degrees, framework)) {
      return *std::move(bad);
    }
    transform.mesh = with_factors(std::move(transform.mesh), merged->factors);
    transform.placements = merged;
    const bool rings = merged->over_rings() &&
                       transform.degrees.sequence_parallel == SequenceParallel::On &&
                       *merged == *ring_placements(network, transform.degrees.tensor_out);
    transform.degrees.temporal = rings ? Temporal::Ring : Temporal::None;
  }
  return plan;
}

ParallelPlan without_placements(ParallelPlan plan, const Framework& framework) {
  for (Transform& transform : plan.transforms) {
    if (!transform.placements) continue;
    const int ranks = transform.mesh.ranks;
    transform.placements = nullptr;
    transform.degrees.temporal = Temporal::None;
    transform.mesh = make_device_mesh(transform.degrees, framework.rank_order);
    transform.mesh.ranks = ranks;
  }
  return plan;
}

std::vector<StageDescription> stages_of(const ParallelPlan& plan, const Framework& framework) {
  const Assignment& assignment = *plan.assignment;
  std::vector<StageDescription> stages(assignment.positions.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].degrees = plan.transform_at(static_cast<int>(s)).degrees;
    stages[s].chunks.resize(static_cast<std::size_t>(assignment.chunks));
  }
  for (std::size_t k = 0; k < assignment.groups_per_replica(); ++k) {
    const OperatorGroup& group = assignment.groups[k];
    stages[static_cast<std::size_t>(group.position)].chunks[static_cast<std::size_t>(group.chunk)] =
        group.blocks;
  }
  const StageMeshes placed = meshes_of(stages, framework);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const int first = assignment.positions[s].first;
    if (first != placed.first[s]) stages[s].first_rank = first;
  }
  return stages;
}

}  // namespace plansearch
