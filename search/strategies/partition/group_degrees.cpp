// SPDX-License-Identifier: Apache-2.0
// Computes: values of micro-batch, recomputation and sharding for plans of one tensor group; lower
//           bounds of the states of a device, and of the step of every plan with given blocks in
//           given stages.
// Source: the framework's rules on the degrees (plan/legality/legality.hpp). The mean stage works
//         no longer than the busiest. Where stages hold one group each and run whole backward
//         passes, the first micro-batch reaches group k when all before it have run their forward,
//         and after the last backward of group k all before it run theirs: sum of T_i (i < k) + m
//         T_k for m micro-batches.
// Assumes: no axis but data, tensor and pipeline; kernels of a block are never faster than those
//          given; waiting only adds to them.
// Units: degrees, seconds.
// Checked by: tests/unit/search/operator_search_test.cpp, least_step_test.cpp
#include "search/strategies/partition/group_degrees.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "communication/derive/tensor_policy.hpp"
#include "evaluate/block/class_profile.hpp"
#include "plan/legality/legality.hpp"
#include "plan/stages/expand.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/plan_stages.hpp"
#include "schedule/simulation/simulator.hpp"
#include "schedule/table.hpp"

namespace plansearch {

std::vector<int> values_of(const SearchRequest& request, Degree degree,
                           const std::function<std::vector<int>()>& all) {
  if (const auto value = request.pinned.get(degree)) return {*value};
  std::vector<int> found = all();
  std::erase_if(found, [&](int value) { return !request.limits.admits(degree, value); });
  return found;
}

std::vector<int> micro_batches_of(const Problem& problem, const SearchRequest& request,
                                  int devices) {
  constexpr int kLargestMicroBatch = 64;
  const std::int64_t data = problem.gpus / devices;
  if (problem.global_batch % data != 0) return {};
  const std::int64_t local = problem.global_batch / data;
  std::vector<int> found = values_of(request, Degree::MicroBatch, [&] {
    std::vector<int> sizes;
    for (int size = 1; size <= std::min<std::int64_t>(local, kLargestMicroBatch); size *= 2) {
      sizes.push_back(size);
    }
    return sizes;
  });
  std::erase_if(found, [&](int size) { return local % size != 0; });
  return found;
}

std::vector<Recompute> recomputations_of(const SearchRequest& request) {
  std::vector<Recompute> levels;
  for (const int level : values_of(request, Degree::Recompute, [] {
         return std::vector<int>{static_cast<int>(Recompute::None),
                                 static_cast<int>(Recompute::Full)};
       })) {
    levels.push_back(static_cast<Recompute>(level));
  }
  return levels;
}

std::vector<ZeroStage> zeros_of(const Problem& problem, const SearchRequest& request,
                                PlanDegrees degrees) {
  if (const auto zero = request.pinned.get(Degree::Zero)) return {static_cast<ZeroStage>(*zero)};
  std::vector<ZeroStage> found;
  degrees.tensor_out = 1;
  for (const ZeroStage zero : {ZeroStage::None, ZeroStage::Optimizer, ZeroStage::Parameters}) {
    degrees.zero = zero;
    const bool runs =
        !check_transform(degrees, *problem.network, *problem.framework, problem.precision);
    if (runs && (found.empty() || degrees.data > 1)) found.push_back(zero);
  }
  std::erase_if(
      found, [&](ZeroStage zero) { return !request.admits(Degree::Zero, static_cast<int>(zero)); });
  return found;
}

std::optional<PlanDegrees> group_degrees(const Problem& problem, const SearchRequest& request,
                                         int tensor, int micro_batch) {
  PlanDegrees degrees = with_pinned({}, request.pinned);
  degrees.tensor_out = tensor;
  degrees.sequence_parallel = SequenceParallel::Off;
  degrees.data = problem.gpus / tensor / degrees.pipeline;
  degrees.micro_batch = micro_batch;
  degrees.micro_batches = static_cast<int>(problem.global_batch / degrees.data / micro_batch);
  const bool asked = request.admits(Degree::TensorOut, tensor) &&
                     request.admits(Degree::Data, degrees.data) &&
                     request.admits(Degree::Chunks, degrees.chunks) &&
                     request.admits(Degree::Temporal, static_cast<int>(Temporal::None));
  if (degrees.devices() != problem.gpus || !asked) return std::nullopt;
  return degrees;
}

Bytes least_states(const Problem& problem, const PlanDegrees& degrees) {
  const DeviceMesh mesh = make_device_mesh(degrees, problem.framework->rank_order);
  const ModelStateBytes bytes =
      static_policy(tensor_policies(degrees, mesh, *problem.framework, problem.precision), mesh,
                    optimizer_moments(problem.model->training.optimizer))
          .dense;
  const double parameters =
      static_cast<double>(parameter_count(*problem.network)) /
      (degrees.tensor_out * degrees.pipeline * degrees.expert * degrees.expert_tensor);
  return Bytes(parameters * (bytes.parameter + bytes.gradient + bytes.optimizer));
}

std::variant<ParallelPlan, Infeasible> placed_plan(const Problem& problem,
                                                   const PlanDegrees& degrees,
                                                   const Placements& placements) {
  auto plan = expand(degrees, *problem.network, *problem.framework);
  auto* made = std::get_if<ParallelPlan>(&plan);
  if (made == nullptr) return plan;
  return with_placements(std::move(*made), placements, *problem.network, *problem.framework);
}

namespace {

Seconds work_of(const OperatorGroup& group, const std::vector<Seconds>& kernels) {
  Seconds work;
  for (const BlockRun& run : group.blocks) {
    work += kernels[run.block] * static_cast<double>(run.count);
  }
  return work;
}

/// Micro-batches that a device keeps activations of at its peak, at least.
double held_at_peak(const Problem& problem, const ParallelPlan& plan, int position) {
  const PlanDegrees& degrees = plan.transforms.front().degrees;
  const bool shared = std::ranges::any_of(
      plan.assignment->contents,
      [](const GroupContent& content) { return !content.edges.shared.empty(); });
  // The gradients of one micro-batch take the place of its activations.
  if (shared || plan.order.micro_batches == 1) return 0.0;
  if (plan.order.window || schedule_row(plan.order.schedule).tuned) return 1.0;
  const PipelineShape shape = pipeline_shape(degrees, *problem.framework, *problem.network);
  const std::array one{Bytes(1)};
  const std::array none{Bytes(0)};
  return peak_activation_bytes(shape, position, one, none).value();
}

}  // namespace

Bytes StageLoad::memory(const std::vector<double>& bytes) const {
  return Bytes(std::inner_product(copies.begin(), copies.end(), bytes.begin(), 0.0));
}

std::vector<StageLoad> stage_loads(const Problem& problem, const ParallelPlan& plan) {
  const Assignment& assignment = *plan.assignment;
  const PlanDegrees& degrees = plan.transforms.front().degrees;
  std::vector<StageLoad> loads;
  if (degrees.on_host != 0 || problem.framework->paged_states) return loads;
  StageLoad mean{std::vector<double>(problem.network->blocks.size(), 0.0), 0.0};
  for (const OperatorGroup& group : assignment.groups) {
    const std::vector<double>& copies =
        assignment.contents[static_cast<std::size_t>(group.content)].copies;
    for (std::size_t b = 0; b < copies.size(); ++b)
      mean.copies[b] += copies[b] / assignment.stages();
    if (assignment.held() > 1) continue;
    StageLoad load{copies, held_at_peak(problem, plan, group.position)};
    if (std::ranges::find(loads, load) == loads.end()) loads.push_back(std::move(load));
  }
  if (loads.empty()) loads.push_back(std::move(mean));
  return loads;
}

Seconds least_step(const std::vector<Seconds>& kernels, const ParallelPlan& plan) {
  const Assignment& assignment = *plan.assignment;
  const bool in_turn = assignment.held() == 1 && !splits_backward(plan.order.schedule);
  const auto micro_batches = static_cast<double>(plan.order.micro_batches);
  Seconds before;
  Seconds longest;
  for (const OperatorGroup& group : assignment.groups) {
    const Seconds work = work_of(group, kernels);
    if (in_turn) longest = std::max(longest, before + work * micro_batches);
    before += work;
  }
  const double shared = static_cast<double>(assignment.replicas) * assignment.stages();
  return std::max(longest, before * (micro_batches / shared));
}

}  // namespace plansearch
