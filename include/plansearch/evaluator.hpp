// SPDX-License-Identifier: Apache-2.0
// Prices plans: a closed-form estimate and a simulation of a step, both from the same block
// profiles. Reports of a priced plan: plan_report.hpp.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "plansearch/degrees.hpp"
#include "plansearch/evaluation.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// Block profiles of one equivalence class: everything of a plan but how layers go to stages, how
/// many micro-batches run and how many replicas there are. Opaque to callers.
struct ClassProfile;

/// Pricing inputs of plans, for bounds and reports (src/evaluate/step/plan_views.hpp).
struct PlanViews;
class ProfileMaker;  // evaluate/block/profile_maker.hpp

/// Reusable buffers of one thread.
struct EvaluationWorkspace;
struct EvaluationWorkspaceDeleter {
  void operator()(EvaluationWorkspace* workspace) const;
};
using EvaluationWorkspacePtr = std::unique_ptr<EvaluationWorkspace, EvaluationWorkspaceDeleter>;

/// Immutable after construction; safe to share between threads, each with its own workspace.
class PlanEvaluator {
 public:
  /// `profiles`: shared with evaluators of the same network, machine, framework and precision.
  explicit PlanEvaluator(Problem problem, std::shared_ptr<const ProfileMaker> profiles = nullptr);
  ~PlanEvaluator();
  PlanEvaluator(const PlanEvaluator&) = delete;
  PlanEvaluator& operator=(const PlanEvaluator&) = delete;

  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] static EvaluationWorkspacePtr make_workspace();

  /// Why the framework or the network forbid the plan, if they do; memory is not checked.
  [[nodiscard]] std::optional<Infeasible> legality(const PlanDegrees& plan) const;
  /// The same without the words, for the search.
  [[nodiscard]] std::optional<Obstacle> obstacle(const PlanDegrees& plan) const;
  /// Why a plan cannot run: its assignment does not fit the network or the devices, a stage is
  /// split as the network or the framework forbids, its batch is not the problem's. Memory is not
  /// checked.
  [[nodiscard]] std::optional<Infeasible> legality(const ParallelPlan& plan) const;
  /// The plan that degrees stand for, or why there is none.
  [[nodiscard]] std::variant<ParallelPlan, Infeasible> expand(const PlanDegrees& degrees) const;

  /// The price of any plan, simulated, or why it has none: a plan of another network, machine or
  /// batch, one that contradicts itself, illegal degrees. A plan that does not fit memory carries
  /// the price it would have.
  [[nodiscard]] Evaluation evaluate(const ParallelPlan& plan) const;
  [[nodiscard]] Evaluation evaluate(const PlanDegrees& plan) const;
  /// The same with a profile and buffers at hand; a profile that is not the plan's is a reason too.
  [[nodiscard]] Evaluation evaluate(const ClassProfile& profile, const PlanDegrees& plan,
                                    EvaluationWorkspace& workspace) const;

  /// The profile of the class of `plan` (its tensor, context, expert, micro-batch, recompute,
  /// sequence-parallel and ZeRO fields and the strides its data and pipeline degrees imply).
  [[nodiscard]] std::shared_ptr<const ClassProfile> profile(const PlanDegrees& plan) const;
  /// Prices of a legal plan by the profile of its class.
  [[nodiscard]] Estimate estimate(const ClassProfile& profile, const PlanDegrees& plan,
                                  EvaluationWorkspace& workspace) const;
  [[nodiscard]] Estimate simulate(const ClassProfile& profile, const PlanDegrees& plan,
                                  EvaluationWorkspace& workspace) const;
  /// Peak memory of one pipeline stage, 0 .. pipeline - 1.
  [[nodiscard]] DeviceMemory stage_memory(const ClassProfile& profile, const PlanDegrees& plan,
                                          int stage, EvaluationWorkspace& workspace) const;

  /// Memory a plan may use: capacity less the user's reserve.
  [[nodiscard]] Bytes memory_limit() const;
  /// Untrained weights on a device of the plan, the mean one, at most that limit: known to the byte.
  [[nodiscard]] Bytes certain_memory(const PlanDegrees& plan) const;
  /// The probability that the plan, of this predicted peak, needs more than the limit.
  [[nodiscard]] double memory_risk(const PlanDegrees& plan, Bytes predicted) const;
  /// The same in words, given the risk the problem accepts.
  [[nodiscard]] MemoryFit memory_fit(const PlanDegrees& plan, Bytes predicted) const;
  /// Whether the host of a node has room for the tensors that live there.
  [[nodiscard]] bool host_fits(const Estimate& estimate) const;
  /// The predicted peak up to which a plan with so much certain memory is called that. Fits <= Tight.
  [[nodiscard]] Bytes memory_up_to(MemoryFit fit, Bytes certain = {}) const;

  [[nodiscard]] const PlanViews& views() const { return *views_; }

 private:
  Problem problem_;
  std::unique_ptr<const PlanViews> views_;
};

}  // namespace plansearch
