// SPDX-License-Identifier: Apache-2.0
// Computes: the assignment and transforms of a plan from degrees or from stages spelled out.
// Source: placement of virtual stages by the schedule's row; layers by the framework's rule.
// Assumes: positions of a uniform plan differ in their pipeline coordinate only; stages spelled
//          out take consecutive ranks.
// Units: ranks, sequences, copies of blocks.
// Checked by: tests/unit/plan/expand_test.cpp
#include "plan/expand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plan/legality.hpp"
#include "plan/pipeline_shape.hpp"
#include "schedule/pipeline.hpp"
#include "schedule/stage_places.hpp"

namespace plansearch {
namespace {

GroupContent content_of(const std::vector<BlockRun>& blocks, int transform, std::size_t count) {
  GroupContent content{.transform = transform, .copies = std::vector<double>(count, 0.0)};
  for (const BlockRun& run : blocks) {
    content.copies[run.block] += static_cast<double>(run.count);
    content.last_block = run.block;
  }
  return content;
}

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

Infeasible refuse(Obstacle obstacle, double needed, double available, std::string detail) {
  return {
      .obstacle = obstacle, .needed = needed, .available = available, .detail = std::move(detail)};
}

}  // namespace

void index_contents(Assignment& assignment, const Network& network) {
  assignment.contents_of.assign(assignment.positions.size(),
                                std::vector<int>(static_cast<std::size_t>(assignment.chunks), -1));
  for (OperatorGroup& group : assignment.groups) {
    const auto position = static_cast<std::size_t>(group.position);
    GroupContent content =
        content_of(group.blocks, assignment.positions[position].transform, network.blocks.size());
    auto& known = assignment.contents;
    const auto same = std::find(known.begin(), known.end(), content);
    group.content = static_cast<int>(same - known.begin());
    if (same == known.end()) known.push_back(std::move(content));
    assignment.contents_of[position][static_cast<std::size_t>(group.chunk)] = group.content;
  }
  const auto& held = assignment.contents_of;
  for (std::size_t p = 0; p < held.size(); ++p) {
    const auto same = std::find_if(assignment.kinds.begin(), assignment.kinds.end(), [&](int q) {
      return held[static_cast<std::size_t>(q)] == held[p];
    });
    assignment.kind_of.push_back(static_cast<int>(same - assignment.kinds.begin()));
    if (same == assignment.kinds.end()) assignment.kinds.push_back(static_cast<int>(p));
  }
}

int devices_of(const Transform& transform) {
  const PlanDegrees& d = transform.degrees;
  return d.data * d.context * d.tensor();
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
  for (int p = 0; p < degrees.pipeline; ++p) assignment->positions.push_back({0, p * stride});
  const std::span<const StagePlace> places = stage_places(pipeline_shape(degrees, framework));
  for (std::size_t k = 0; k < runs.size(); ++k) {
    assignment->groups.push_back({places[k].device, places[k].chunk, runs[k]});
  }
  index_contents(*assignment, network);
  return assignment;
}

std::variant<ParallelPlan, Infeasible> expand(const PlanDegrees& degrees, const Network& network,
                                              const Framework& framework) {
  ParallelPlan plan;
  plan.transforms.push_back({degrees, make_device_mesh(degrees, framework.rank_order)});
  plan.order = {degrees.schedule, degrees.micro_batches};
  const int stride = plan.transforms.front().mesh.neighbour_distance(Axis::Pipeline);
  auto assignment = uniform_assignment(degrees, network, framework, stride);
  if (auto* infeasible = std::get_if<Infeasible>(&assignment)) return std::move(*infeasible);
  plan.assignment = std::move(std::get<0>(assignment));
  return plan;
}

std::variant<ParallelPlan, Infeasible> plan_of_stages(std::span<const StageDescription> stages,
                                                      Order order, std::int64_t batch,
                                                      const Framework& framework,
                                                      const Network& network) {
  ParallelPlan plan;
  plan.order = order;
  auto assignment = std::make_shared<Assignment>();
  int first = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    PlanDegrees degrees = stages[s].degrees;
    // The mesh of one stage by itself; only then the place in the pipeline, which policies ask for.
    degrees.pipeline = degrees.chunks = 1;
    DeviceMesh mesh = make_device_mesh(degrees, framework.rank_order);
    degrees.pipeline = static_cast<int>(stages.size());
    degrees.micro_batches = order.micro_batches;
    degrees.schedule = order.schedule;
    const std::int64_t shares =
        std::int64_t{1} * order.micro_batches * degrees.data * degrees.tensor_depth;
    if (batch % shares != 0) {
      return refuse(Obstacle::BatchNotDivisible, static_cast<double>(shares),
                    static_cast<double>(batch),
                    fmt::format("stage {}: a batch of {} in {} micro-batches over {} data ranks is "
                                "{:.4g} sequences each; the share of a micro-batch must be whole",
                                s, batch, order.micro_batches, degrees.data * degrees.tensor_depth,
                                static_cast<double>(batch) / static_cast<double>(shares)));
    }
    degrees.micro_batch = static_cast<int>(batch / shares);
    Transform transform{degrees, std::move(mesh)};
    const auto same = std::find(plan.transforms.begin(), plan.transforms.end(), transform);
    const int index = static_cast<int>(same - plan.transforms.begin());
    assignment->positions.push_back({index, first});
    first += devices_of(transform);
    if (same == plan.transforms.end()) plan.transforms.push_back(std::move(transform));
    assignment->groups.push_back({static_cast<int>(s), 0, joined(stages[s].blocks)});
  }
  for (Transform& transform : plan.transforms) transform.mesh.ranks = first;
  index_contents(*assignment, network);
  plan.assignment = std::move(assignment);
  return plan;
}

std::vector<StageDescription> stages_of(const ParallelPlan& plan) {
  std::vector<StageDescription> stages(plan.assignment->positions.size());
  for (const OperatorGroup& group : plan.assignment->groups) {
    StageDescription& stage = stages[static_cast<std::size_t>(group.position)];
    stage.degrees = plan.transform_at(group.position).degrees;
    stage.blocks.insert(stage.blocks.end(), group.blocks.begin(), group.blocks.end());
  }
  return stages;
}

namespace {

std::optional<Infeasible> check_blocks(const Assignment& assignment, const Network& network) {
  std::vector<BlockRun> held;
  for (const OperatorGroup& group : assignment.groups) {
    held.insert(held.end(), group.blocks.begin(), group.blocks.end());
  }
  if (joined(held) == joined(network.order)) return std::nullopt;
  const auto count = [](const std::vector<BlockRun>& runs) {
    return std::accumulate(runs.begin(), runs.end(), std::int64_t{0},
                           [](std::int64_t sum, const BlockRun& run) { return sum + run.count; });
  };
  return refuse(Obstacle::LayersNotDivisible, static_cast<double>(count(network.order)),
                static_cast<double>(count(held)),
                fmt::format("the groups hold {} blocks, {} has {} in its own order", count(held),
                            network.name, count(network.order)));
}

std::optional<Infeasible> check_ranks(const ParallelPlan& plan, int gpus) {
  if (plan.devices() != gpus) {
    return refuse(Obstacle::DegreesDoNotMultiply, plan.devices(), gpus,
                  fmt::format("the stages take {} devices together, not {}", plan.devices(), gpus));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Infeasible> check_assignment(const ParallelPlan& plan, const Network& network,
                                           int gpus) {
  if (auto bad = check_blocks(*plan.assignment, network)) return bad;
  return check_ranks(plan, gpus);
}

}  // namespace plansearch
