// SPDX-License-Identifier: Apache-2.0
// Computes: the best plans of a space of degrees under placements and shared devices that a plan
//           file decides, or with every linear operator over squares of devices.
// Source: constraints of nnScaler (OSDI 2024, section 4): a search over what they leave open.
// Assumes: orders that are found have one chunk a stage. Operators in pieces multiply and read at
//          least as much as whole ones, so that the bound of the degrees alone holds. Plans with
//          blocks on the devices of all stages have the bound of a tensor group of them: no stage
//          does more than such a group.
// Units: seconds.
// Checked by: tests/unit/question/open_plan_test.cpp (equal to pricing every plan)
#include "search/strategies/strategy.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "base/checked.hpp"
#include "evaluate/step/bound_ladder.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plan/stages/gangs.hpp"
#include "plansearch/plan_stages.hpp"
#include "search/strategies/offers.hpp"

namespace plansearch {
namespace {

std::variant<ParallelPlan, Infeasible> with_placed(ParallelPlan plan, const Problem& problem,
                                                   Placements placements,
                                                   const PlanDegrees& degrees) {
  if (placements.factors.empty() && degrees.tensor_out > 1) {
    placements.factors = {degrees.tensor_out};
  }
  return with_placements(std::move(plan), placements, *problem.network, *problem.framework);
}

/// All layers of a kind are cut alike, so that the network stays as it is.
std::variant<ParallelPlan, Infeasible> on_squares(ParallelPlan plan, const Problem& problem,
                                                  int side, const PlanDegrees& degrees) {
  const auto refused = [](const PlacementFault& fault) {
    return Infeasible{.obstacle = Obstacle::NoSuchFeature, .detail = fault.message};
  };
  const auto names = square_placements(*problem.network, degrees, side);
  if (const auto* fault = std::get_if<PlacementFault>(&names)) return refused(*fault);
  auto made = resolve_placements(std::get<PlacementNames>(names), *problem.network, degrees,
                                 *problem.framework);
  if (const auto* fault = std::get_if<PlacementFault>(&made)) return refused(*fault);
  const auto& squares = std::get<DistinguishedNetwork>(made);
  if (squares.network->blocks.size() != problem.network->blocks.size()) {
    return Infeasible{.obstacle = Obstacle::NoSuchFeature, .detail = "layers differ"};
  }
  return with_placements(std::move(plan), squares.placements, *problem.network, *problem.framework);
}

class ConstrainedSearch : public Strategy {
 public:
  ConstrainedSearch(const SearchTask& task, std::shared_ptr<const LegalWalk> walk,
                    SearchRequest request)
      : task_(task), offers_(task), walk_(std::move(walk)), request_(std::move(request)) {}

  void run() override {
    collect();
    for (std::size_t next = 0; next < plans_.size();) {
      check_stop();
      check_work();
      std::vector<Offers::Made> batch;
      for (; next < plans_.size() && batch.size() < Offers::kBatch; ++next) {
        const auto& [bound, degrees] = plans_[next];
        const PlanFamily family = family_of(degrees);
        if (!offers_.may_rank(family, bound)) continue;
        auto made = constrained_plan(task_.evaluator, request_, degrees);
        if (const auto* bad = std::get_if<Infeasible>(&made)) {
          reject(bad->obstacle, 1);
        } else {
          batch.push_back({std::move(made), family});
        }
      }
      offers_.offer_batch(batch.size(), [&](std::size_t i) {
        return may_enter(batch[i]) ? batch[i] : Offers::Made{Infeasible(), batch[i].family};
      });
    }
  }

 private:
  using Bounded = std::pair<Seconds, PlanDegrees>;

  /// To find an order takes longer than all else of a plan: one that no order brings into the
  /// ranking or into memory is left out. From any thread.
  [[nodiscard]] bool may_enter(const Offers::Made& made) const {
    const auto& plan = std::get<ParallelPlan>(made.plan);
    if (!plan.order.window || task_.options.pruning == Pruning::Off) return true;
    if (task_.evaluator.legality(plan)) return true;  // is told as such
    const PlanBound bound = windowless_bound(task_.evaluator, plan);
    return bound.memory <= task_.limits().tight() && offers_.may_rank(made.family, bound.step_time);
  }

  void reject(Obstacle obstacle, std::int64_t plans) {
    std::int64_t& known = task_.result.counts.rejected[static_cast<std::size_t>(obstacle)];
    known = saturated_sum(known, plans);
  }

  /// Legal degrees, the lowest bound first. Rings place operators themselves.
  void collect() {
    const SpaceWalk& space = walk_->space();
    SpaceCounter counter(space);
    offers_.count(static_cast<double>(counter.all()));
    walk_->visit(
        0, space.depth(), PlanDegrees{},
        [&](const PlanDegrees& degrees) {
          if (degrees.temporal != Temporal::None || is_said_already(degrees)) {
            return reject(Obstacle::NoSuchFeature, 1);
          }
          plans_.emplace_back(bound_of(degrees), degrees);
          check_stop();
        },
        [&](Obstacle obstacle, std::size_t level, const PlanDegrees& degrees) {
          reject(obstacle, counter.below(level, degrees));
        });
    std::stable_sort(plans_.begin(), plans_.end(),
                     [](const Bounded& a, const Bounded& b) { return a.first < b.first; });
  }

  /// An order that is found makes no difference between schedules. Chunks only lengthen its search.
  [[nodiscard]] bool is_said_already(PlanDegrees degrees) {
    if (request_.shared_blocks.empty() || degrees.pipeline == 1) return false;
    if (degrees.chunks > 1) return true;
    degrees.schedule = kDefaultSchedule;
    return !seen_.insert(degrees).second;
  }

  [[nodiscard]] Seconds bound_of(PlanDegrees degrees) const {
    if (!request_.shared_blocks.empty()) {
      degrees.tensor_out *= std::exchange(degrees.pipeline, 1);
    }
    return degree_bound(task_.evaluator, degrees).step_time;
  }

  /// Plans that differ in chunks and order only.
  static PlanFamily family_of(PlanDegrees degrees) {
    degrees.chunks = 1;
    degrees.schedule = kDefaultSchedule;
    return {degrees, {1}};
  }

  const SearchTask& task_;
  Offers offers_;
  std::shared_ptr<const LegalWalk> walk_;
  SearchRequest request_;
  std::vector<Bounded> plans_;
  std::set<PlanDegrees> seen_;
};

}  // namespace

std::variant<ParallelPlan, Infeasible> constrained_plan(const PlanEvaluator& evaluator,
                                                        const SearchRequest& request,
                                                        const PlanDegrees& degrees) {
  const Problem& problem = evaluator.problem();
  auto made = evaluator.expand(degrees);
  if (std::holds_alternative<Infeasible>(made)) return made;
  if (request.square > 0) {
    made = on_squares(std::get<ParallelPlan>(std::move(made)), problem, request.square, degrees);
  }
  if (request.placements) {
    made =
        with_placed(std::get<ParallelPlan>(std::move(made)), problem, *request.placements, degrees);
  }
  // One stage is all devices.
  if (request.shared_blocks.empty() || degrees.pipeline == 1) return made;
  if (std::holds_alternative<Infeasible>(made)) return made;
  return with_gangs(std::get<ParallelPlan>(std::move(made)), request.shared_blocks,
                    *problem.network, *problem.framework);
}

SearchPart constrained_part(std::shared_ptr<const LegalWalk> walk, SearchRequest request) {
  std::string space = walk->space().space().name;
  return {std::move(space),
          [walk = std::move(walk),
           request = std::move(request)](const SearchTask& task) -> std::unique_ptr<Strategy> {
            return std::make_unique<ConstrainedSearch>(task, walk, request);
          }};
}

}  // namespace plansearch
