// SPDX-License-Identifier: Apache-2.0
// The degrees around one tensor group that planners of single operators search, and the least memory
// and step of their plans.
#pragma once

#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "plansearch/placements.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/quantity.hpp"
#include "search/strategies/uneven/stage_configs.hpp"

namespace plansearch {

/// The value that was asked for, or those of `all` that the limits admit.
[[nodiscard]] std::vector<int> values_of(const SearchRequest& request, Degree degree,
                                         const std::function<std::vector<int>()>& all);

/// Powers of two that divide what one replica of `devices` gets of the batch.
[[nodiscard]] std::vector<int> micro_batches_of(const Problem& problem,
                                                const SearchRequest& request, int devices);

/// None and full, as the request admits.
[[nodiscard]] std::vector<Recompute> recomputations_of(const SearchRequest& request);

/// The first stage of sharding that the framework runs beside operators cut one by one, and those
/// that shard more where there are replicas.
[[nodiscard]] std::vector<ZeroStage> zeros_of(const Problem& problem, const SearchRequest& request,
                                              PlanDegrees degrees);

/// Tensor groups of so many ranks with the degrees of the question, without sequence parallelism; nothing
/// where that does not fill the GPUs.
[[nodiscard]] std::optional<PlanDegrees> group_degrees(const Problem& problem,
                                                       const SearchRequest& request, int tensor,
                                                       int micro_batch);

/// Weights, gradients and optimizer states of one device where all are cut over every degree that
/// cuts weights: no plan of these degrees holds less.
[[nodiscard]] Bytes least_states(const Problem& problem, const PlanDegrees& degrees);

/// The plan of these degrees with its operators placed one by one.
[[nodiscard]] std::variant<ParallelPlan, Infeasible> placed_plan(const Problem& problem,
                                                                 const PlanDegrees& degrees,
                                                                 const Placements& placements);

/// Blocks on one device, and micro-batches whose activations it holds at its peak.
struct StageLoad {
  std::vector<double> copies{};  ///< by index into Network::blocks
  double in_flight = 1.0;
  /// `bytes` of one copy, by block, with so many in flight.
  [[nodiscard]] Bytes memory(const std::vector<double>& bytes) const;
  bool operator==(const StageLoad&) const = default;
};

/// The different loads of the stages of a plan, less than any device holds; none where the host
/// holds tensors.
[[nodiscard]] std::vector<StageLoad> stage_loads(const Problem& problem, const ParallelPlan& plan);

/// Lower bound of the step of every plan with the blocks of `plan` in its stages. `kernels`: the
/// least seconds of one micro-batch through one copy of a block, by index into Network::blocks.
[[nodiscard]] Seconds least_step(const std::vector<Seconds>& kernels, const ParallelPlan& plan);

}  // namespace plansearch
