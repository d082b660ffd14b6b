// SPDX-License-Identifier: Apache-2.0
// Pricing inputs of the plans of one problem, made from parts that plans share. Estimates, bounds
// and reports read the same ones.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "evaluate/answer/interval.hpp"
#include "evaluate/block/profile_maker.hpp"
#include "evaluate/step/grid_bound.hpp"
#include "evaluate/step/plan_invariants.hpp"
#include "plan/legality/legality.hpp"
#include "plansearch/evaluator.hpp"

namespace plansearch {

struct ListedStep;  // evaluate/step/priced_program.hpp

/// Immutable but for thread-safe caches.
struct PlanViews {
  PlanViews(const Problem& asked, std::shared_ptr<const ProfileMaker> shared);

  Problem problem;
  PricingContext context;
  ErrorModel errors;
  double fitting_share;  ///< of the memory that is not certain, up to which a plan fits,
  double tight_share;    ///< and up to which it is tight
  GridBound grid;
  AssignmentCache assignments;
  std::shared_ptr<const ProfileMaker> profiles;
  std::vector<LegalityCondition> on_modules;  ///< those that read the modules of a plan
  std::map<int, std::shared_ptr<const Placements>> rings;  ///< by tensor degree

  /// Placements of single operators that the degrees imply; null: none.
  [[nodiscard]] const std::shared_ptr<const Placements>& placements(const PlanDegrees& plan) const;
  [[nodiscard]] DeviceMesh mesh(const PlanDegrees& plan) const;
  [[nodiscard]] ModelStatePolicy statics(const PlanDegrees& plan, const DeviceMesh& mesh) const;

  /// listed_step of a plan of these degrees, whose view this is; each is made once.
  [[nodiscard]] std::shared_ptr<const ListedStep> listed(const PlanDegrees& plan,
                                                         const PricingInput& view,
                                                         EvaluationWorkspace& workspace) const;

  /// Calls visit(view) of a view that has no messages of the end of a step.
  template <typename Visit>
  auto with_bound_view(const ClassProfile& profile, const PlanDegrees& plan,
                       EvaluationWorkspace& workspace, Visit visit) const {
    const PlanInvariants& known = invariants(profile, plan, workspace);
    return visit(PricingInput{context, known, Order{plan.schedule, plan.micro_batches}});
  }

  template <typename Visit>
  auto with_view(const ClassProfile& profile, const PlanDegrees& plan,
                 EvaluationWorkspace& workspace, Visit visit) const {
    PlanInvariants& known = invariants(profile, plan, workspace);
    complete(known);
    return visit(PricingInput{context, known, Order{plan.schedule, plan.micro_batches}});
  }

  /// The same for any plan, its profiles found here.
  template <typename Visit>
  auto with_view(const ParallelPlan& plan, Visit visit) const {
    const OwnInvariants own(*this, plan);
    return visit(PricingInput{context, own.invariants, plan.order});
  }

 private:
  mutable std::mutex listing_;
  mutable std::map<PlanDegrees, std::shared_ptr<const ListedStep>> listed_;

  /// Invariants of a plan that is priced once, with all they refer to.
  struct OwnInvariants {
    OwnInvariants(const PlanViews& views, const ParallelPlan& plan);
    OwnInvariants(const OwnInvariants&) = delete;
    OwnInvariants& operator=(const OwnInvariants&) = delete;
    std::vector<std::shared_ptr<const ClassProfile>> held;
    LinkedAssignment linked;
    PlanInvariants invariants;
  };

  /// Invariants of a uniform plan: known ones where its degrees are the same.
  PlanInvariants& invariants(const ClassProfile& profile, const PlanDegrees& plan,
                             EvaluationWorkspace& workspace) const;
  /// Adds the messages of the end of a step, where they are not known.
  void complete(PlanInvariants& known) const;
};

}  // namespace plansearch
