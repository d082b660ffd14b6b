// SPDX-License-Identifier: Apache-2.0
// Computes: the legal plans of a space that exceed memory least.
// Source: branch and bound on peak memory: the families with the least bounds, then all in order,
//         thresholds frozen per batch.
// Assumes: memory does not fall when micro-batches grow and several are left.
// Units: bytes.
// Checked by: tests/unit/search/search_test.cpp (equal to pricing every plan).
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/parallel.hpp"
#include "evaluate/step/bound_ladder.hpp"
#include "plansearch/error.hpp"
#include "search/strategies/strategy.hpp"

namespace plansearch {
namespace {

constexpr std::size_t kMissesBatch = 256;
/// Families that are looked through before all others.
constexpr std::size_t kFirstFamilies = 16;

bool nearer(const NearMiss& a, const NearMiss& b) {
  return std::tuple(a.estimate.memory.total(), a.plan) <
         std::tuple(b.estimate.memory.total(), b.plan);
}

/// The nearest of a list, never more than asked for.
class Nearest {
 public:
  explicit Nearest(std::size_t count) : count_(count) {}

  [[nodiscard]] const std::vector<NearMiss>& misses() const { return misses_; }
  /// Whether a plan that needs at least this much is out of the question.
  [[nodiscard]] bool excludes(Bytes memory) const {
    return misses_.size() == count_ && memory > misses_.back().estimate.memory.total();
  }
  void insert(NearMiss miss) {
    const auto place = std::upper_bound(misses_.begin(), misses_.end(), miss, nearer);
    misses_.insert(place, std::move(miss));
    if (misses_.size() > count_) misses_.pop_back();
  }

 private:
  std::size_t count_;
  std::vector<NearMiss> misses_;
};

/// Looks through one family, beginning with what was nearest before.
class MissFinder {
 public:
  MissFinder(const SearchTask& task, const LegalWalk& walk, Nearest nearest,
             EvaluationWorkspace& workspace)
      : task_(task),
        walk_(walk),
        workspace_(workspace),
        ladder_(task.evaluator, workspace),
        nearest_(std::move(nearest)) {}

  void visit(const PlanDegrees& family) {
    const SpaceWalk& space = walk_.space();
    const std::size_t level = space.level_of(Degree::MicroBatch);
    excluded_.clear();
    const auto visit_plan = [&](const PlanDegrees& plan) {
      try {
        look_at(plan);
      } catch (const SimulationLimit&) {  // how near it is cannot be said
      }
    };
    walk_.visit(level, space.depth(), family, visit_plan,
                [](Obstacle, std::size_t, const PlanDegrees&) {});
  }

  [[nodiscard]] const Nearest& nearest() const { return nearest_; }

 private:
  /// With the best dispatcher and the modules that give most back; nothing where memory excludes
  /// the plan, at first under any modules.
  [[nodiscard]] std::optional<PlanDegrees> settled(const PlanDegrees& open) {
    const auto excludes = [&](const PlanBound& b) { return nearest_.excludes(b.memory); };
    PlanDegrees plan = open;
    if (plan.dispatcher == kAnyDispatcher) plan = ladder_.with_best_dispatcher(plan);
    PlanBound bound;
    if (open.modules == kFewestModules) {
      if (ladder_.climb(kMemoryRungs, plan, bound, excludes)) return std::nullopt;
      const DispatcherId dispatcher = plan.dispatcher;
      plan = ladder_.with_least_kept(open);
      plan.dispatcher = dispatcher;
    }
    if (ladder_.climb({Rung::EndStages, Rung::Peak}, plan, bound, excludes)) return std::nullopt;
    return plan;
  }

  void look_at(const PlanDegrees& open) {
    const std::tuple form(open.chunks, open.schedule, open.micro_batches > 1);
    if (std::find(excluded_.begin(), excluded_.end(), form) != excluded_.end()) return;
    const std::optional<PlanDegrees> found = settled(open);
    if (!found) return excluded_.push_back(form);
    const PlanDegrees& plan = *found;
    const auto profile = task_.evaluator.profile(plan);
    const Estimate estimate = task_.evaluator.estimate(*profile, plan, workspace_);
    // A plan of degrees that fits does not answer a question about a space of other plans.
    const Bytes limit = task_.limits().tight(plan);
    if (estimate.memory.total() <= limit && estimate.host_memory <= Bytes(0)) return;
    nearest_.insert({plan, estimate, limit});
  }

  const SearchTask& task_;
  const LegalWalk& walk_;
  EvaluationWorkspace& workspace_;
  BoundLadder ladder_;
  Nearest nearest_;
  std::vector<std::tuple<int, ScheduleId, bool>> excluded_;  ///< with a smaller micro-batch
};

}  // namespace

std::vector<NearMiss> nearest_misses(const SearchTask& task, const LegalWalk& walk,
                                     std::size_t count) {
  if (count == 0 || walk.obstacle(0, PlanDegrees{})) return {};
  Nearest nearest(count);
  Pool<EvaluationWorkspacePtr> workspaces(PlanEvaluator::make_workspace);
  std::vector<PlanDegrees> batch;
  const auto process = [&] {
    std::vector<std::vector<NearMiss>> found(batch.size());
    parallel_for(batch.size(), task.options.threads, [&](std::size_t i) {
      found[i] = workspaces.with([&](EvaluationWorkspacePtr& workspace) {
        MissFinder finder(task, walk, nearest, *workspace);
        finder.visit(batch[i]);
        return finder.nearest().misses();
      });
    });
    for (const auto& misses : found) {
      for (const NearMiss& miss : misses) {
        const auto& known = nearest.misses();
        const bool is_new = std::none_of(known.begin(), known.end(),
                                         [&](const NearMiss& k) { return k.plan == miss.plan; });
        if (is_new) nearest.insert(miss);
      }
    }
    batch.clear();
  };
  std::multimap<Bytes, PlanDegrees> first;
  const auto take_least = [&](const PlanDegrees& family, Bytes bound) {
    if (first.size() == kFirstFamilies && bound >= first.rbegin()->first) return;
    first.emplace(bound, family);
    if (first.size() > kFirstFamilies) first.erase(std::prev(first.end()));
  };
  const auto take_rest = [&](const PlanDegrees& family, Bytes bound) {
    if (nearest.excludes(bound)) return;
    batch.push_back(family);
    if (batch.size() == kMissesBatch) process();
  };
  const auto for_each_family = [&](const auto& take) {
    walk.visit(
        0, walk.space().level_of(Degree::MicroBatch), PlanDegrees{},
        [&](const PlanDegrees& family) {
          take(family, degree_bound(task.evaluator, family).memory);
        },
        [](Obstacle, std::size_t, const PlanDegrees&) {});
  };
  try {
    for_each_family(take_least);
    for (const auto& [bound, family] : first) batch.push_back(family);
    process();
    for_each_family(take_rest);
    process();
  } catch (const Stopped&) {
    // Those of the batches before.
  }
  return nearest.misses();
}

}  // namespace plansearch
