// SPDX-License-Identifier: Apache-2.0
// Computes: plans of a framework's degrees whose linear operators run over rings.
// Source: collective matmul (Wang et al., ASPLOS 2023); plan/ring_placements.hpp.
// Assumes: rings hide messages and slow kernels: no plan over rings is faster than the kernels of
//          the same plan by role, each stage shortened to them, or needs less memory than its
//          sharded states.
// Units: seconds, bytes.
// Checked by: tests/unit/search/ring_search_test.cpp (every plan priced both ways)
#include "search/planner/ring_search.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "plan/ring_placements.hpp"
#include "plansearch/error.hpp"
#include "search/planner/group_degrees.hpp"
#include "search/planner/offers.hpp"

namespace plansearch {
namespace {

bool may_run_over_rings(const PlanDegrees& degrees) {
  return degrees.tensor_out > 1 && degrees.tensor() == degrees.tensor_out &&
         degrees.sequence_parallel == SequenceParallel::On;
}

class RingSearch : public Strategy {
 public:
  RingSearch(const SearchTask& task, std::shared_ptr<const LegalWalk> walk)
      : evaluator_(task.evaluator),
        problem_(evaluator_.problem()),
        task_(task),
        walk_(std::move(walk)),
        offers_(task) {}

  void run() override {
    const auto visit = [&](const PlanDegrees& plan) {
      try {
        add(plan);
      } catch (const SimulationLimit&) {
        ++task_.result.counts.rejected[static_cast<std::size_t>(Obstacle::BeyondSimulation)];
      }
    };
    walk_->visit(0, walk_->space().depth(), PlanDegrees{}, visit,
                 [](Obstacle, std::size_t, const PlanDegrees&) {});
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
    for (const Candidate& candidate : candidates_) {
      if (stop_if_late()) return;
      const PlanFamily family{plan_family(candidate.plan), {candidate.plan.tensor_out}};
      if (!offers_.may_rank(family, candidate.bound)) continue;
      offers_.offer(over_rings(candidate.plan), family);
    }
  }

 private:
  struct Candidate {
    PlanDegrees plan;
    Seconds bound;  ///< no step over rings is shorter
  };

  bool stop_if_late() {
    if (!task_.deadline.passed()) return false;
    task_.result.completeness = Completeness::Stopped;
    return true;
  }

  void add(const PlanDegrees& plan) {
    if (!may_run_over_rings(plan)) return;
    offers_.count(1.0);
    const PlanFamily family{plan_family(plan), {plan.tensor_out}};
    const PlanBound grid = evaluator_.grid_bound(plan);
    if (grid.memory > offers_.limit() || !offers_.may_rank(family, grid.step_time)) return;
    if (task_.result.completeness == Completeness::Stopped || stop_if_late()) return;
    ++task_.result.families;
    const Seconds bound = bound_of(plan);
    if (offers_.may_rank(family, bound)) candidates_.push_back({plan, bound});
  }

  /// The bound by role, as if all stages lost the share of messages that the busiest one has.
  [[nodiscard]] Seconds bound_of(const PlanDegrees& plan) {
    const auto profile = evaluator_.profile(plan);
    const StepTimeBreakdown step = evaluator_.estimate(*profile, plan, *workspace_).step;
    const Seconds kernels = step.compute + step.recompute;
    const Seconds bound = evaluator_.bound(*profile, plan, *workspace_).step_time;
    return std::max(kernels, bound * (kernels / (step.total() - step.bubble)));
  }

  [[nodiscard]] std::variant<ParallelPlan, Infeasible> over_rings(const PlanDegrees& degrees) {
    const auto [known, is_new] = rings_.try_emplace(degrees.tensor_out);
    std::optional<Placements>& rings = known->second;
    if (is_new) rings = ring_choice(*problem_.network, degrees, *problem_.framework);
    if (rings) return placed_plan(problem_, degrees, *rings);
    return Infeasible{.obstacle = Obstacle::FrameworkForbids,
                      .detail = "products do not divide over the ring"};
  }

  const PlanEvaluator& evaluator_;
  const Problem& problem_;
  const SearchTask& task_;
  std::shared_ptr<const LegalWalk> walk_;
  Offers offers_;
  EvaluationWorkspacePtr workspace_ = PlanEvaluator::make_workspace();
  std::map<int, std::optional<Placements>> rings_;  ///< by tensor degree
  std::vector<Candidate> candidates_;
};

}  // namespace

SearchPart ring_part(std::shared_ptr<const LegalWalk> walk) {
  return {"rings", [walk = std::move(walk)](const SearchTask& task) {
            return std::make_unique<RingSearch>(task, walk);
          }};
}

}  // namespace plansearch
