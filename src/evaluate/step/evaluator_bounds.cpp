// SPDX-License-Identifier: Apache-2.0
// Computes: bounds of a plan from what is known early, and what a search leaves to its class.
// Source: placements, kernels and bytes of blocks (evaluate/block); evaluate/step/grid_bound.hpp.
// Assumes: plans are legal.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/bound_test.cpp, tests/unit/search/exhaustive_test.cpp
#include <algorithm>
#include <optional>
#include <vector>

#include "evaluate/step/evaluator_parts.hpp"

namespace plansearch {
namespace {

/// The first device holds most micro-batches, the last one the loss: the worst needs no less.
Bytes least_memory(const PricingInput& view, EvaluationWorkspace& workspace) {
  const int last = view.assignment().stages() - 1;
  const Bytes first = device_memory(view, 0, workspace).memory.total();
  return last == 0 ? first : std::max(first, device_memory(view, last, workspace).memory.total());
}

/// By stage, without recomputation: what a set of modules has to give back there.
class StageExcess {
 public:
  StageExcess(const PricingInput& view, Bytes limit, EvaluationWorkspace& workspace)
      : assignment_(view.assignment()) {
    for (int position = 0; position < assignment_.stages(); ++position) {
      if (!may_keep_most(view, position)) continue;
      const Bytes excess = device_memory(view, position, workspace).memory.total() - limit;
      if (excess <= Bytes(0)) continue;
      const double kept = peak_chunks(view.shape(), position);
      stages_.push_back({static_cast<std::size_t>(position), excess / kept * (1.0 - 1e-9)});
    }
  }

  [[nodiscard]] bool exceeds(const ModuleChoice& choice) const {
    return std::any_of(stages_.begin(), stages_.end(),
                       [&](const Stage& stage) { return most(choice, stage) < stage.excess; });
  }

 private:
  struct Stage {
    std::size_t position;
    Bytes excess;  ///< by chunk that is kept
  };

  /// Of every chunk that is kept no more comes back than of the one that gives most.
  [[nodiscard]] Bytes most(const ModuleChoice& choice, const Stage& stage) const {
    Bytes most;
    for (const int content : assignment_.contents_of[stage.position]) {
      const auto& copies = assignment_.contents[static_cast<std::size_t>(content)].copies;
      Bytes returned;
      for (std::size_t b = 0; b < copies.size(); ++b) {
        returned += choice.blocks[b].returned * copies[b];
      }
      most = std::max(most, returned);
    }
    return most;
  }

  const Assignment& assignment_;
  std::vector<Stage> stages_;
};

}  // namespace

PlanBound PlanEvaluator::grid_bound(const PlanDegrees& plan) const {
  return implementation_->grid.of(plan,
                                  implementation_->statics(plan, implementation_->mesh(plan)));
}

PlanBound PlanEvaluator::placed_bound(const PlanDegrees& plan,
                                      EvaluationWorkspace& workspace) const {
  const GridBound& grid = implementation_->grid;
  const EarlyPlacement& early = implementation_->early(plan, workspace);
  return {implementation_->least_time(plan, grid.work(plan), workspace),
          grid.memory(plan, early.statics)};
}

Seconds PlanEvaluator::work_bound(const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
  const auto& placed = implementation_->early(plan, workspace).placed;
  const auto work = implementation_->profiles.network_work(placed, plan.micro_batch / plan.pieces);
  return implementation_->least_time(plan, *work, workspace);
}

PlanBound PlanEvaluator::bound(const ClassProfile& profile, const PlanDegrees& plan,
                               EvaluationWorkspace& workspace) const {
  return implementation_->with_bound_view(profile, plan, workspace, [&](const PricingInput& view) {
    PlanBound bound;
    bound.step_time = step_time_bound(view, workspace);
    bound.memory = least_memory(view, workspace);
    return bound;
  });
}

PlanBound PlanEvaluator::windowless_bound(const ParallelPlan& plan) const {
  const auto workspace = make_workspace();
  return implementation_->with_view(plan, [&](const PricingInput& view) {
    // A price rounds a tick of every micro-batch away.
    const Seconds rounding = to_seconds(view.order.micro_batches);
    PlanBound bound{(step_time_bound(view, *workspace) - rounding) * (1.0 - 1e-12), Bytes(0)};
    for (int position = 0; position < view.assignment().stages(); ++position) {
      const DeviceMemory memory = device_memory(view, position, *workspace, WindowPeak::Least);
      bound.memory = std::max(bound.memory, memory.memory.total());
    }
    return bound;
  });
}

Bytes PlanEvaluator::memory_bound(const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
  implementation_->fill_memory(plan, workspace);
  return implementation_->with_bound_view(
      workspace.early.profile, plan, workspace,
      [&](const PricingInput& view) { return least_memory(view, workspace); });
}

Seconds PlanEvaluator::kernel_bound(const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
  EarlyProfile& early = workspace.early;
  const ProfileMaker& profiles = implementation_->profiles;
  const auto bound = [&] {
    return implementation_->with_bound_view(
        early.profile, plan, workspace,
        [&](const PricingInput& view) { return step_time_bound(view, workspace); });
  };
  if (plan.modules == 0) {
    implementation_->fill_memory(plan, workspace);
    if (!early.timed || early.dispatcher != plan.dispatcher) profiles.fill_least_times(early);
    return bound();
  }
  // Times need no memory: that of keeping everything, which all sets of modules share, does.
  const PlanDegrees all = Implementation::keeping_all(plan);
  implementation_->fill_memory(all, workspace);
  const auto take = [&](const PlanDegrees& other) {
    early.profile.recompute = other.recompute;
    early.profile.modules = other.modules;
    early.profile.made_for = other;
    early.timed = false;
  };
  take(plan);
  profiles.fill_least_times(early);
  const Seconds time = bound();
  take(all);
  return time;
}

PlanDegrees PlanEvaluator::with_best_dispatcher(PlanDegrees plan,
                                                EvaluationWorkspace& workspace) const {
  const ProfileMaker& profiles = implementation_->profiles;
  const bool joined = profiles.joins(plan.schedule);
  const std::vector<BlockWaits>& tried = implementation_->tried_waits(plan, workspace);
  std::optional<Seconds> least;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const BlockWaits& waits = tried[i];
    const Seconds own = joined ? waits.exchange : waits.forward + waits.backward;
    if (least && own >= *least) continue;
    least = own;
    plan.dispatcher = profiles.tried()[i];
  }
  return plan;
}

std::vector<std::uint8_t> PlanEvaluator::module_sets(const PlanDegrees& plan,
                                                     EvaluationWorkspace& workspace) const {
  std::vector<std::uint8_t> sets;
  PlanDegrees tried = plan;
  for (const ModuleChoice& choice : implementation_->choices(plan, workspace)->sets) {
    tried.modules = choice.modules;
    if (!obstacle(tried)) sets.push_back(choice.modules);
  }
  return sets;
}

Bytes PlanEvaluator::module_bound(const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
  constexpr auto kFull = static_cast<std::size_t>(Recompute::Full);
  return implementation_->with_saved(
      plan, workspace,
      [&](std::size_t b, BlockMemory& block) {
        const auto& known = workspace.early.profile.memory->blocks[b];
        block.saved = std::min(block.saved, known[kFull].saved);
      },
      [&](const PricingInput& view) { return least_memory(view, workspace); });
}

std::optional<ModuleFit> PlanEvaluator::modules_within(const PlanDegrees& plan, Bytes limit,
                                                       std::size_t first,
                                                       EvaluationWorkspace& workspace) const {
  const auto choices = implementation_->choices(plan, workspace);
  const bool joined = implementation_->profiles.joins(plan.schedule);
  const StageExcess excess = implementation_->with_saved(
      plan, workspace, [](std::size_t, BlockMemory&) {},
      [&](const PricingInput& view) { return StageExcess(view, limit, workspace); });
  PlanDegrees tried = plan;
  for (std::size_t i = first; i < choices->sets.size(); ++i) {
    const ModuleChoice& choice = choices->sets[i];
    if (excess.exceeds(choice)) continue;
    const bool fits = implementation_->with_saved(
        plan, workspace,
        [&](std::size_t b, BlockMemory& block) {
          block.saved -= choice.blocks[b].returned;
          block.working_set += choice.blocks[b].again;
        },
        [&](const PricingInput& view) {
          return least_memory(view, workspace) <= limit &&
                 worst_device_memory(view, workspace).memory.total() <= limit;
        });
    if (!fits) continue;
    tried.modules = choice.modules;
    // Only what an order forbids depends on the set.
    if (!joined || !obstacle(tried)) return ModuleFit{i, choice.modules};
  }
  return std::nullopt;
}

Bytes PlanEvaluator::peak_memory(const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
  implementation_->fill_memory(plan, workspace);
  return implementation_->with_bound_view(
      workspace.early.profile, plan, workspace, [&](const PricingInput& view) {
        return worst_device_memory(view, workspace).memory.total();
      });
}

}  // namespace plansearch
