// SPDX-License-Identifier: Apache-2.0
// Computes: values of micro-batch, recomputation and sharding for plans of one tensor group.
// Source: the framework's rules on the degrees (plan/legality/legality.hpp).
// Assumes: no axis but data, tensor and pipeline.
// Units: degrees.
// Checked by: tests/unit/search/operator_search_test.cpp
#include "search/strategies/partition/group_degrees.hpp"

#include <algorithm>
#include <utility>

#include "plan/legality/legality.hpp"
#include "plan/stages/expand.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/plan_stages.hpp"

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

std::variant<ParallelPlan, Infeasible> placed_plan(const Problem& problem,
                                                   const PlanDegrees& degrees,
                                                   const Placements& placements) {
  auto plan = expand(degrees, *problem.network, *problem.framework);
  auto* made = std::get_if<ParallelPlan>(&plan);
  if (made == nullptr) return plan;
  return with_placements(std::move(*made), placements, *problem.network, *problem.framework);
}

}  // namespace plansearch
