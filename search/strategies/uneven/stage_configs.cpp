// SPDX-License-Identifier: Apache-2.0
// Computes: sub-mesh sizes, layers with their embeddings and heads, degrees of single stages.
// Source: Alpa (OSDI'22), section 5.2, for sub-meshes; the framework's own space for degrees.
// Assumes: a framework that runs a stage's degrees alone runs them beside other ones.
// Units: devices, layers.
// Checked by: tests/unit/search/uneven_search_test.cpp
#include "search/strategies/uneven/stage_configs.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "plan/legality/legality.hpp"
#include "plan/stages/expand.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/error.hpp"
#include "plansearch/space.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Those of the framework that suit the network, or the one asked for.
std::vector<ScheduleId> orders_of(const Problem& problem, const SearchRequest& request) {
  std::vector<ScheduleId> orders = schedules_of(*problem.framework);
  if (const auto asked = request.pinned.get(Degree::Schedule)) {
    orders = {static_cast<ScheduleId>(*asked)};
  }
  std::erase_if(orders, [&](ScheduleId id) {
    return !suits(id, *problem.network) || splits_backward(id) ||
           !schedule_row(id).chunks.contains(1) || schedule_row(id).placement->replicas > 1 ||
           !request.admits(Degree::Schedule, static_cast<int>(id));
  });
  return orders;
}

/// The degrees of one stage of the pipeline's, other stages left open.
SearchRequest request_of_one_stage(SearchRequest request) {
  // Stages take the framework's own where the user names no others.
  for (const Degree degree : {Degree::RecomputeModules, Degree::Dispatcher, Degree::Offload}) {
    if (!request.pinned.has(degree) && !request.limits.has(degree)) request.pinned.pin(degree, 0);
  }
  for (const Degree degree : {Degree::Pipeline, Degree::Chunks, Degree::Schedule}) {
    request.pinned.release(degree);
    request.limits.release(degree);
  }
  request.pinned.pin(Degree::Pipeline, 1);
  request.pinned.pin(Degree::Chunks, 1);
  return request;
}

}  // namespace

std::vector<int> submesh_sizes(int devices_per_node, int devices) {
  std::vector<int> sizes;
  for (int size = 1; size < devices_per_node && size < devices; size *= 2) {
    if (devices_per_node % size == 0) sizes.push_back(size);
  }
  for (int size = devices_per_node; size < devices; size *= 2) sizes.push_back(size);
  sizes.push_back(devices);
  return sizes;
}

std::vector<std::vector<BlockRun>> layer_runs(const Network& network) {
  const auto layers = static_cast<std::size_t>(count_layers(network));
  auto placed = place_layers(network, std::vector<std::int64_t>(layers, 1));
  PLANSEARCH_CHECK(std::holds_alternative<StageRuns>(placed));
  return std::get<StageRuns>(std::move(placed));
}

std::map<PipelineOrder, std::vector<PlanDegrees>> stage_degrees(const Problem& problem,
                                                                const SearchRequest& request,
                                                                const std::vector<int>& sizes) {
  std::map<PipelineOrder, std::vector<PlanDegrees>> found;
  if (!request.admits(Degree::Chunks, 1)) return found;
  const std::vector<ScheduleId> orders = orders_of(problem, request);
  const bool usual = std::find(orders.begin(), orders.end(), kDefaultSchedule) != orders.end();
  const ScheduleId of_one_stage = usual || orders.empty() ? kDefaultSchedule : orders.front();
  const SearchRequest alone = request_of_one_stage(request);
  for (const int size : sizes) {
    Problem part = problem;
    part.gpus = size;
    const auto space = make_space("framework", part, alone.pinned, alone.limits);
    if (!std::holds_alternative<SearchSpace>(space)) continue;
    const SpaceWalk walk(std::get<SearchSpace>(space));
    walk.for_each_plan(0, walk.depth(), PlanDegrees{}, [&](PlanDegrees degrees) {
      degrees.pipeline = size == problem.gpus ? 1 : 2;
      if (degrees.schedule != kDefaultSchedule) return;  // orders are chosen for all stages
      if (request.micro_batches && degrees.micro_batches != *request.micro_batches) return;
      if (check_transform(degrees, *problem.network, *problem.framework, problem.precision)) return;
      for (const ScheduleId order : orders) {
        if (degrees.pipeline == 1 && order != of_one_stage) continue;  // all are the same there
        degrees.schedule = order;
        found[{order, degrees.micro_batches}].push_back(degrees);
      }
    });
  }
  return found;
}

LayerRanges::LayerRanges(const std::vector<std::vector<BlockRun>>& pieces, const Network& network,
                         SkipRoute skips)
    : layers_(static_cast<int>(pieces.size())) {
  numbers_.assign(pieces.size() * pieces.size(), -1);
  const std::vector<SharedTensor> tensors = shared_tensors(network);
  using Runs = std::vector<std::pair<std::size_t, std::int64_t>>;
  std::map<Runs, std::vector<std::pair<GroupEdges, int>>> known;
  std::int64_t position = 0;
  for (std::size_t first = 0; first < pieces.size(); ++first) {
    std::vector<BlockRun> runs;
    for (std::size_t last = first; last < pieces.size(); ++last) {
      runs.insert(runs.end(), pieces[last].begin(), pieces[last].end());
      runs = joined(runs);
      Runs key;
      for (const BlockRun& run : runs) key.emplace_back(run.block, run.count);
      const GroupEdges edges = group_edges(network, tensors, runs, position, skips);
      auto& alike = known[std::move(key)];
      auto same = std::find_if(alike.begin(), alike.end(),
                               [&](const auto& other) { return other.first == edges; });
      if (same == alike.end()) {
        same = alike.insert(same, {edges, size()});
        runs_.push_back({runs, position});
      }
      numbers_[first * pieces.size() + last] = same->second;
    }
    position += copies_of(pieces[first]);
  }
}

}  // namespace plansearch
