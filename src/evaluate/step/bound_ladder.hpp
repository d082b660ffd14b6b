// SPDX-License-Identifier: Apache-2.0
// Lower bounds of plans, rung by rung: cheap ones first, so that a search drops most plans before
// it prices a kernel or a message.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>

#include "evaluate/step/plan_views.hpp"

namespace plansearch {

/// Bound of any plan, legal or not, by its degrees alone, from any thread. It holds as well for all
/// plans that differ from it in schedule and chunks, in more recompute or in larger micro-batches.
[[nodiscard]] PlanBound degree_bound(const PlanEvaluator& evaluator, const PlanDegrees& plan);

/// Bound of a legal plan with a searched order, without the search: no order of its passes ends
/// earlier, and none keeps less than one micro-batch.
[[nodiscard]] PlanBound windowless_bound(const PlanEvaluator& evaluator, const ParallelPlan& plan);

/// Rungs of a ladder, the cheapest first. Each replaces the time or the memory of the rungs below
/// it with a tighter one.
enum class Rung : std::uint8_t {
  // Bounds of a micro-batch whose chunks and schedule are open: they hold for all schedules that
  // join passes if the plan's own does, or that do not; with kAnyDispatcher, for any dispatcher.
  Degrees,    ///< time and memory by degrees alone, of any schedule and dispatcher
  Placement,  ///< time and memory by degrees, and the messages that its placement waits for at once
  Kernels,    ///< time, with the kernels of the placement
  // Bounds of a legal plan.
  EndStages,  ///< memory of the first and the last stage; with kFewestModules, under any modules
  Passes,     ///< time of kernels and of messages that they wait for at once, without a profile
  Peak,       ///< memory of the worst stage
};
inline constexpr std::initializer_list<Rung> kMicroBatchRungs{Rung::Placement, Rung::Kernels};
inline constexpr std::initializer_list<Rung> kPlanRungs{Rung::EndStages, Rung::Passes};
inline constexpr std::initializer_list<Rung> kMemoryRungs{Rung::EndStages};

/// A set of modules with which a plan has room, and its place among the sets that are tried.
struct ModuleFit {
  std::size_t place = 0;
  std::uint8_t modules = 0;
};

/// Bounds of plans, and the choices that a search settles by the same early knowledge: the
/// dispatcher and the recomputed modules. For one thread; evaluator and workspace are referenced.
class BoundLadder {
 public:
  BoundLadder(const PlanEvaluator& evaluator, EvaluationWorkspace& workspace)
      : views_(evaluator.views()), workspace_(workspace) {}

  /// Raises `bound` rung by rung until `excludes(bound)`; returns whether a rung excluded the plan.
  template <typename Excludes>
  bool climb(std::initializer_list<Rung> rungs, const PlanDegrees& plan, PlanBound& bound,
             const Excludes& excludes) {
    for (const Rung rung : rungs) {
      raise(rung, plan, bound);
      if (excludes(bound)) return true;
    }
    return false;
  }
  /// One rung alone.
  [[nodiscard]] PlanBound bound(Rung rung, const PlanDegrees& plan) {
    PlanBound bound;
    raise(rung, plan, bound);
    return bound;
  }
  /// The top of the ladder: the bound of a legal plan whose profile is there.
  [[nodiscard]] PlanBound bound(const ClassProfile& profile, const PlanDegrees& plan);

  /// The plan with the dispatcher, of those that searches try, whose exchanges kernels wait for
  /// least; where its order joins passes, with the fastest.
  [[nodiscard]] PlanDegrees with_best_dispatcher(PlanDegrees plan);
  /// The plan with the set of modules that keeps least, of those that a legal plan with selective
  /// recompute can name; without recomputation where there is none.
  [[nodiscard]] PlanDegrees with_least_kept(PlanDegrees plan);
  /// The cheapest set of modules, from place `first` on, with which the plan needs no more than
  /// `limit`; places count sets that no other beats in both kernels and bytes, cheapest first.
  [[nodiscard]] std::optional<ModuleFit> modules_within(const PlanDegrees& plan, Bytes limit,
                                                        std::size_t first = 0);

 private:
  void raise(Rung rung, const PlanDegrees& plan, PlanBound& bound);
  [[nodiscard]] bool may_recompute(const PlanDegrees& plan) const;
  [[nodiscard]] Seconds pass_time(const PlanDegrees& plan);
  [[nodiscard]] Bytes end_memory(const PlanDegrees& plan);
  [[nodiscard]] Bytes module_memory(const PlanDegrees& plan);
  EarlyPlacement& unplaced(const PlanDegrees& plan);
  const EarlyPlacement& placement(const PlanDegrees& plan);
  [[nodiscard]] Seconds least_time(const PlanDegrees& plan, const NetworkWork& work,
                                   const std::shared_ptr<const PlacedNetwork>& own);
  std::span<const BlockWaits> tried_waits(PlanDegrees plan,
                                          const std::shared_ptr<const PlacedNetwork>& own);
  void fill_memory(const PlanDegrees& plan);
  template <typename Change, typename Visit>
  auto with_saved(const PlanDegrees& plan, Change change, Visit visit);

  const PlanViews& views_;
  EvaluationWorkspace& workspace_;
};

}  // namespace plansearch
