// SPDX-License-Identifier: Apache-2.0
// The part of a plan's price that does not depend on its micro-batches, recomputation or schedule.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "evaluate/step/pricing_input.hpp"
#include "schedule/order/stage_places.hpp"

namespace plansearch {

[[nodiscard]] LinkedAssignment routed(const Cluster& cluster, const ParallelPlan& plan);
/// Adds the route from the last group to the first, where micro-batches pass several of them again.
void add_return_boundary(const Problem& problem, const ParallelPlan& plan,
                         LinkedAssignment& routed_plan);

/// One assignment per (stages, chunks, placement, ranks between stages), shared by all threads.
class AssignmentCache {
 public:
  explicit AssignmentCache(const Problem& problem) : problem_(problem) {}
  /// The plan must be legal.
  [[nodiscard]] const LinkedAssignment& get(const PlanDegrees& degrees,
                                            const DeviceMesh& mesh) const;

 private:
  using Key = std::tuple<int, int, const StageMapping*, int>;
  const Problem& problem_;
  mutable std::mutex mutex_;
  mutable std::map<Key, std::unique_ptr<const LinkedAssignment>> known_;
};

/// Parameters that one position holds under a transform; those that its blocks share count once.
[[nodiscard]] ParameterCount parameters_at(const PricingInput& view, int position, int transform);
/// Copies of every block of the network that they have of one transform.
[[nodiscard]] std::vector<double> copies_at(const PricingInput& view, int position, int transform);

/// Fills in `kinds`; transforms, assignment and boundaries are there. Profiles need no times.
void complete_kinds(const PricingContext& context, PlanInvariants& invariants);

}  // namespace plansearch
