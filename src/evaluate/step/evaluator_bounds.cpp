// SPDX-License-Identifier: Apache-2.0
// Computes: bounds of a plan from what is known early, and what a search leaves to its class.
// Source: placements, kernels and bytes of blocks (evaluate/block); evaluate/step/grid_bound.hpp.
// Assumes: plans are legal.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/bound_test.cpp, tests/unit/search/exhaustive_test.cpp
#include <algorithm>
#include <optional>
#include <utility>
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

/// Room for the plan of a view on all of its devices, asked of set after set of modules. What the
/// profile of the view holds at first is without recomputation.
class ModuleRoom {
 public:
  ModuleRoom(const PricingInput& view, std::vector<BlockProfile>& blocks, Bytes limit,
             EvaluationWorkspace& workspace)
      : view_(view), assignment_(view.assignment()), limit_(limit), workspace_(workspace) {
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      blocks_.push_back({&blocks[b].memory, blocks[b].memory});
    }
    const int last = assignment_.stages() - 1;
    for (int position = 0; position <= last; ++position) {
      if (position < last && !may_keep_most(view, position)) continue;
      const Bytes excess = device_memory(view, position, workspace).memory.total() - limit;
      const double kept = peak_chunks(view.shape(), position);
      devices_.push_back({position, excess / kept * (1.0 - 1e-9)});
    }
  }

  [[nodiscard]] bool has_room(const ModuleChoice& choice) {
    for (const Device& device : devices_) {
      if (device.excess > Bytes(0) && most(choice, device.position) < device.excess) return false;
    }
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      blocks_[b].now->saved = blocks_[b].whole.saved - choice.blocks[b].returned;
      blocks_[b].now->working_set = blocks_[b].whole.working_set + choice.blocks[b].again;
    }
    // A device that had no room with the last set is likely to have none with this one.
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const int position = devices_[i].position;
      if (device_memory(view_, position, workspace_).memory.total() <= limit_) continue;
      std::swap(devices_[0], devices_[i]);
      return false;
    }
    return true;
  }

 private:
  struct ChangedBlock {
    BlockMemory* now;
    BlockMemory whole;
  };
  struct Device {
    int position;
    Bytes excess;  ///< by chunk that is kept: what a set has to give back there
  };

  /// Of every chunk that is kept no more comes back than of the one that gives most.
  [[nodiscard]] Bytes most(const ModuleChoice& choice, int position) const {
    Bytes most;
    for (const int content : assignment_.contents_of[static_cast<std::size_t>(position)]) {
      const auto& copies = assignment_.contents[static_cast<std::size_t>(content)].copies;
      Bytes returned;
      for (std::size_t b = 0; b < copies.size(); ++b) {
        returned += choice.blocks[b].returned * copies[b];
      }
      most = std::max(most, returned);
    }
    return most;
  }

  const PricingInput& view_;
  const Assignment& assignment_;
  Bytes limit_;
  EvaluationWorkspace& workspace_;
  std::vector<ChangedBlock> blocks_;
  std::vector<Device> devices_;
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
  PlanDegrees tried = plan;
  return implementation_->with_saved(
      plan, workspace, [](std::size_t, BlockMemory&) {},
      [&](const PricingInput& view) -> std::optional<ModuleFit> {
        ModuleRoom room(view, workspace.early.profile.blocks, limit, workspace);
        for (std::size_t i = first; i < choices->sets.size(); ++i) {
          if (!room.has_room(choices->sets[i])) continue;
          tried.modules = choices->sets[i].modules;
          if (implementation_->may_recompute(tried)) return ModuleFit{i, tried.modules};
        }
        return std::nullopt;
      });
}

Bytes PlanEvaluator::peak_memory(const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
  implementation_->fill_memory(plan, workspace);
  return implementation_->with_bound_view(
      workspace.early.profile, plan, workspace, [&](const PricingInput& view) {
        return worst_device_memory(view, workspace).memory.total();
      });
}

}  // namespace plansearch
