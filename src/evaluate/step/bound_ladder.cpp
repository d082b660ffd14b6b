// SPDX-License-Identifier: Apache-2.0
// Computes: lower bounds of a plan before its messages have a price; the dispatcher and the modules
//           that a search leaves open.
// Source: placements, kernels and bytes of blocks (evaluate/block); evaluate/step/grid_bound.hpp.
// Assumes: plans are legal where a rung is one of legal plans.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/bound_test.cpp, tests/unit/search/exhaustive_test.cpp
#include "evaluate/step/bound_ladder.hpp"

#include <algorithm>
#include <utility>

#include "evaluate/block/host_copies.hpp"
#include "evaluate/memory/memory_model.hpp"
#include "evaluate/step/step_model.hpp"
#include "plan/primitives/offload.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// Chunks and order set to one value: placements and memory of a micro-batch depend on neither.
PlanDegrees without_order(PlanDegrees plan) {
  plan.chunks = plan.micro_batches = 1;
  plan.schedule = kDefaultSchedule;
  return plan;
}

/// The plan without recomputation.
PlanDegrees keeping_all(PlanDegrees plan) {
  plan.recompute = Recompute::None;
  plan.recompute_layers = 0;
  plan.modules = 0;
  return plan;
}

/// Where the dispatcher is open: under the framework's own.
PlanDegrees under_own(PlanDegrees plan) {
  if (plan.dispatcher == kAnyDispatcher) plan.dispatcher = kOwnDispatcher;
  return plan;
}

/// The fields that a placement does not depend on, set to one value.
PlanDegrees placement_degrees(const PlanDegrees& asked, const Framework& framework) {
  PlanDegrees plan = keeping_all(without_order(asked));
  plan.micro_batch = plan.pieces = 1;
  plan.on_host &= static_cast<HostBits>(~kKeptByLayers);
  plan.dispatcher = placed_dispatcher(framework, plan.dispatcher);
  return plan;
}

/// The fields that memory of one micro-batch does not depend on, set to one value.
PlanDegrees memory_degrees(const PlanDegrees& asked, const Framework& framework) {
  PlanDegrees plan = without_order(asked);
  plan.dispatcher = placed_dispatcher(framework, plan.dispatcher);
  return plan;
}

/// Whether the host takes what layers keep of whole micro-batches, and passes wait for the copies.
bool waits_for_copies(const PlanDegrees& plan) {
  return host_tensors(plan.on_host).activations && plan.pieces == 1 && plan.modules == 0 &&
         plan.recompute_layers == 0;
}

/// The work of passes that last no less than their copies, and wait for those between kernels.
NetworkWork beside_copies(NetworkWork work, const HostCopies& copies, Recompute level) {
  const Seconds backward =
      work.repeated[static_cast<std::size_t>(level)] + work.input_gradient + work.weight_gradient;
  work.forward = std::max(work.forward, copies.forward) + copies.between_forward;
  work.input_gradient += std::max(copies.backward - backward, Seconds(0)) + copies.between_backward;
  return work;
}

/// The first device holds most micro-batches, the last one the loss: the worst needs no less.
Bytes least_memory(const PricingInput& view, EvaluationWorkspace& workspace) {
  const int last = view.assignment().stages() - 1;
  const Bytes first = device_memory(view, 0, workspace).memory.total();
  return last == 0 ? first : std::max(first, device_memory(view, last, workspace).memory.total());
}

/// Room for the plan of a view on all of its devices, under set after set of modules. The profile
/// of the view is at first that without recomputation.
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
    Bytes excess;  ///< per kept chunk, that a set has to give back there
  };

  /// Every chunk that is kept gives back no more than the one that gives most.
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

PlanBound degree_bound(const PlanEvaluator& evaluator, const PlanDegrees& plan) {
  const PlanViews& views = evaluator.views();
  return views.grid.of(plan, views.statics(plan, views.mesh(plan)));
}

PlanBound windowless_bound(const PlanEvaluator& evaluator, const ParallelPlan& plan) {
  const auto workspace = PlanEvaluator::make_workspace();
  return evaluator.views().with_view(plan, [&](const PricingInput& view) {
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

void BoundLadder::raise(Rung rung, const PlanDegrees& plan, PlanBound& bound) {
  switch (rung) {
    case Rung::Degrees:
      bound = views_.grid.of(plan, unplaced(under_own(plan)).statics);
      return;
    case Rung::Placement: {
      const EarlyPlacement& own = placement(under_own(plan));
      bound.memory = views_.grid.memory(plan, own.statics);
      bound.step_time = least_time(plan, views_.grid.work(plan), own.placed);
      return;
    }
    case Rung::Kernels: {
      const auto& own = placement(under_own(plan)).placed;
      const NetworkWork& work = views_.profiles->network_work(*own, plan.micro_batch / plan.pieces);
      bound.step_time = least_time(plan, work, own);
      if (!waits_for_copies(plan) || views_.profiles->joins(plan.schedule)) return;
      fill_memory(under_own(plan));
      Bytes left;
      for (const BlockRun& run : views_.problem.network->order) {
        left += workspace_.early.profile.blocks[run.block].memory.offloaded *
                static_cast<double>(run.count);
      }
      const HostCopies copies = host_copies(views_.context, left, {});
      const NetworkWork longer = beside_copies(work, copies, plan.recompute);
      bound.step_time = std::max(bound.step_time, views_.grid.step_time(plan, longer, {}));
      return;
    }
    case Rung::EndStages:
      bound.memory = plan.modules == kFewestModules ? module_memory(plan) : end_memory(plan);
      return;
    case Rung::Passes:
      bound.step_time = pass_time(plan);
      return;
    case Rung::Peak:
      fill_memory(plan);
      bound.memory = views_.with_bound_view(
          workspace_.early.profile, plan, workspace_, [&](const PricingInput& view) {
            return worst_device_memory(view, workspace_).memory.total();
          });
      return;
  }
  throw InternalError("unknown rung");
}

PlanBound BoundLadder::bound(const ClassProfile& profile, const PlanDegrees& plan) {
  return views_.with_bound_view(profile, plan, workspace_, [&](const PricingInput& view) {
    PlanBound bound;
    bound.step_time = simulated_bound(view, workspace_);
    bound.memory = least_memory(view, workspace_);
    return bound;
  });
}

Bytes BoundLadder::end_memory(const PlanDegrees& plan) {
  fill_memory(plan);
  return views_.with_bound_view(
      workspace_.early.profile, plan, workspace_,
      [&](const PricingInput& view) { return least_memory(view, workspace_); });
}

/// visit(view) of the plan without recomputation, every block's memory changed by change(b, it).
template <typename Change, typename Visit>
auto BoundLadder::with_saved(const PlanDegrees& plan, Change change, Visit visit) {
  const PlanDegrees all = keeping_all(plan);
  fill_memory(all);
  ClassProfile& profile = workspace_.early.profile;
  thread_local std::vector<BlockMemory> kept;
  kept.clear();
  for (std::size_t b = 0; b < profile.blocks.size(); ++b) {
    kept.push_back(profile.blocks[b].memory);
    change(b, profile.blocks[b].memory);
  }
  const auto result = views_.with_bound_view(profile, all, workspace_, visit);
  for (std::size_t b = 0; b < kept.size(); ++b) profile.blocks[b].memory = kept[b];
  return result;
}

Bytes BoundLadder::module_memory(const PlanDegrees& plan) {
  constexpr auto kFull = static_cast<std::size_t>(Recompute::Full);
  return with_saved(
      plan,
      [&](std::size_t b, BlockMemory& block) {
        const auto& known = workspace_.early.profile.memory->blocks[b];
        block.saved = std::min(block.saved, known[kFull].saved);
      },
      [&](const PricingInput& view) { return least_memory(view, workspace_); });
}

Seconds BoundLadder::pass_time(const PlanDegrees& plan) {
  EarlyProfile& early = workspace_.early;
  const auto bound = [&] {
    return views_.with_bound_view(early.profile, plan, workspace_, [&](const PricingInput& view) {
      return step_time_bound(view, workspace_);
    });
  };
  if (plan.modules == 0) {
    fill_memory(plan);
    if (!early.timed || early.dispatcher != plan.dispatcher) {
      views_.profiles->fill_least_times(early);
    }
    return bound();
  }
  // Times need no memory: that of keeping everything, which all sets of modules share, does.
  const PlanDegrees all = keeping_all(plan);
  fill_memory(all);
  const auto take = [&](const PlanDegrees& other) {
    early.profile.recompute = other.recompute;
    early.profile.modules = other.modules;
    early.profile.made_for = other;
    early.timed = false;
  };
  take(plan);
  views_.profiles->fill_least_times(early);
  const Seconds time = bound();
  take(all);
  return time;
}

/// States by degrees; what is placed where is known only if it was asked for.
EarlyPlacement& BoundLadder::unplaced(const PlanDegrees& plan) {
  const PlanDegrees degrees = placement_degrees(plan, *views_.problem.framework);
  const bool own = degrees.dispatcher == kOwnDispatcher;
  EarlyPlacement& known = own ? workspace_.placement : workspace_.dispatched;
  if (known.context == views_.context.id && known.degrees == degrees) return known;
  known = {views_.context.id, degrees, views_.statics(plan, views_.mesh(plan)), nullptr};
  return known;
}

const EarlyPlacement& BoundLadder::placement(const PlanDegrees& plan) {
  EarlyPlacement& known = unplaced(plan);
  if (known.placed) return known;
  known.placed = views_.profiles->placed(plan, views_.mesh(plan), views_.placements(plan));
  return known;
}

/// The time of a piece with this work, under the plan's dispatcher or any that is tried.
Seconds BoundLadder::least_time(const PlanDegrees& plan, const NetworkWork& work,
                                const std::shared_ptr<const PlacedNetwork>& own) {
  const ProfileMaker& profiles = *views_.profiles;
  const bool joined = profiles.joins(plan.schedule);
  const auto time = [&](const BlockWaits& waits) {
    return joined ? views_.grid.joined_time(plan, work, waits)
                  : views_.grid.step_time(plan, work, waits);
  };
  if (plan.dispatcher != kAnyDispatcher) {
    return time(profiles.least_waits(*own, piece_of(plan), plan.dispatcher));
  }
  const std::span<const BlockWaits> tried = tried_waits(plan, own);
  Seconds least = time(tried.front());
  for (const BlockWaits& waits : tried) least = std::min(least, time(waits));
  return least;
}

/// `own`: the placement under the framework's own dispatcher. Until other waits are asked for.
std::span<const BlockWaits> BoundLadder::tried_waits(
    PlanDegrees plan, const std::shared_ptr<const PlacedNetwork>& own) {
  TriedWaits& known = workspace_.tried;
  if (known.context != views_.context.id || known.placed != own) {
    known.context = views_.context.id;
    known.placed = own;
    known.pieces.clear();
    known.waits.clear();
  }
  const Piece piece = piece_of(plan);
  const std::vector<DispatcherId>& tried = views_.profiles->tried();
  const auto at = std::ranges::find(known.pieces, piece) - known.pieces.begin();
  const std::size_t first = static_cast<std::size_t>(at) * tried.size();
  if (first == known.waits.size()) {
    known.pieces.push_back(piece);
    for (const DispatcherId id : tried) {
      plan.dispatcher = placed_dispatcher(*views_.problem.framework, id);
      const auto& placed = plan.dispatcher == kOwnDispatcher ? own : placement(plan).placed;
      known.waits.push_back(views_.profiles->least_waits(*placed, piece, id));
    }
  }
  return std::span(known.waits).subspan(first, tried.size());
}

void BoundLadder::fill_memory(const PlanDegrees& plan) {
  EarlyProfile& early = workspace_.early;
  const Framework& framework = *views_.problem.framework;
  const bool known =
      early.context == views_.profiles->id() &&
      memory_degrees(early.profile.made_for, framework) == memory_degrees(plan, framework);
  if (!known) return views_.profiles->fill_memory(plan, placement(plan).placed, early);
  early.profile.made_for = plan;
}

PlanDegrees BoundLadder::with_best_dispatcher(PlanDegrees plan) {
  const ProfileMaker& profiles = *views_.profiles;
  const bool joined = profiles.joins(plan.schedule);
  plan.dispatcher = kOwnDispatcher;
  const std::span<const BlockWaits> tried = tried_waits(plan, placement(plan).placed);
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

/// Whether a plan that is legal with other modules is so with its own.
bool BoundLadder::may_recompute(const PlanDegrees& plan) const {
  return std::none_of(views_.on_modules.begin(), views_.on_modules.end(),
                      [&](const auto& condition) { return condition.obstacle(plan).has_value(); });
}

PlanDegrees BoundLadder::with_least_kept(PlanDegrees plan) {
  const auto choices = views_.profiles->module_choices(placement(plan).placed, plan);
  for (auto choice = choices->sets.rbegin(); choice != choices->sets.rend(); ++choice) {
    plan.modules = choice->modules;
    if (may_recompute(plan)) return plan;
  }
  plan.modules = 0;
  plan.recompute = Recompute::None;
  return plan;
}

std::optional<ModuleFit> BoundLadder::modules_within(const PlanDegrees& plan, Bytes limit,
                                                     std::size_t first) {
  const auto choices = views_.profiles->module_choices(placement(plan).placed, plan);
  PlanDegrees tried = plan;
  return with_saved(
      plan, [](std::size_t, BlockMemory&) {},
      [&](const PricingInput& view) -> std::optional<ModuleFit> {
        ModuleRoom room(view, workspace_.early.profile.blocks, limit, workspace_);
        for (std::size_t i = first; i < choices->sets.size(); ++i) {
          if (!room.has_room(choices->sets[i])) continue;
          tried.modules = choices->sets[i].modules;
          if (may_recompute(tried)) return ModuleFit{i, tried.modules};
        }
        return std::nullopt;
      });
}

}  // namespace plansearch
