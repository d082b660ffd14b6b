// SPDX-License-Identifier: Apache-2.0
// A plan with everything known about it before any time is added up: what the step model and the
// memory model read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "evaluate/block/class_profile.hpp"
#include "evaluate/step/boundary.hpp"
#include "plan/primitives/recompute.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/plan.hpp"
#include "schedule/simulation/closed_form.hpp"
#include "schedule/simulation/simulator.hpp"

namespace plansearch {

/// One transform of a plan, priced.
struct TransformInvariants {
  const PlanDegrees* degrees = nullptr;
  const DeviceMesh* mesh = nullptr;
  const ClassProfile* profile = nullptr;
  ModelStatePolicy statics;
  const Placements* placements = nullptr;  ///< of single operators

  /// A tensor at the border of a block, of a network with edges.
  [[nodiscard]] const PortBytes& port(const BlockPort& at) const {
    return profile->memory->ports[at.block][at.port];
  }
};

/// The bytes and times of optimizer states in memory of the host.
struct HostUpdate {
  Bytes memory;        ///< of the node
  Seconds update;      ///< on the CPU
  Seconds parameters;  ///< copied back to the devices
  Seconds gradients;   ///< copied to the host at the end of a step
  Seconds reduced;     ///< a micro-batch's gradients to the host, with their sum so far
};

/// The states and the work per step of a device of one kind, whatever the micro-batches.
struct StageClassStates {
  ParameterCount parameters;
  Bytes parameter_bytes;
  Bytes gradient_bytes;
  Bytes optimizer_bytes;
  Bytes reduction_buffers;
  Bytes gathered_parameters;  ///< of units in use under full sharding
  Seconds optimizer;          ///< on the device, or on the host and back
  HostUpdate offload;         ///< nothing where states are on the device
  Seconds host;  ///< per-step work of the host: a constant and a share per sharded tensor
};

/// The gathers and reductions of a device of one kind at the end of a step.
struct StageClassMessages {
  std::vector<PhaseMessage> overlapping;  ///< with its first forward and its last backward
  std::vector<PhaseMessage> last;  ///< after everything else: gradients that several kinds sum
};

/// An assignment and the routes between its groups.
struct LinkedAssignment {
  std::shared_ptr<const Assignment> assignment;
  /// By virtual stage, to the next one; of the last to the first where micro-batches pass again.
  std::vector<StageLink> boundaries;
  /// Boundaries that equal tiles cross over equal paths have one number, whatever the profile.
  std::vector<std::size_t> kind_of_boundary;
  std::vector<std::size_t> boundary_kinds;  ///< the first boundary of every kind
  std::vector<StageLink> direct{};          ///< by Assignment::direct
};

/// The time of the messages of a boundary.
struct TransferTicks {
  Ticks activation = 0;
  Ticks gradient = 0;
};

/// The part that plans share which differ in micro-batches and recomputation only.
struct PlanInvariants {
  std::uint64_t context = 0;  ///< of whose prices; 0: none
  PlanDegrees degrees;        ///< of a uniform plan, what it does not depend on set to defaults
  DeviceMesh mesh;            ///< of a uniform plan
  std::vector<TransformInvariants> transforms;
  const LinkedAssignment* routed = nullptr;
  std::vector<StageClassStates> kinds;
  std::vector<StageClassMessages> messages;  ///< by kind
  bool messages_known = false;               ///< they need more of a profile than memory does
};

/// Forward and backward of one micro-batch through one group of blocks, or several.
struct PhaseLengths {
  Seconds forward;   ///< with the wait for the host
  Seconds backward;  ///< recompute included; without the weight gradient where it runs apart
  Seconds weight;
  /// The time that the forward adds to a backward beside it, where the order joins them.
  Seconds joined_forward;

  [[nodiscard]] Seconds total() const { return forward + backward + weight; }
};

/// Lengths of one group, in ticks as well.
struct GroupLengths : PhaseLengths {
  Ticks forward_ticks = 0;
  Ticks backward_ticks = 0;
  Ticks weight_ticks = 0;
  Ticks joined_ticks = 0;
};

/// When a device begins, when it has nothing left to do for the pipeline, and both if messages took
/// no time. Waiting propagates between devices, so it cannot be attributed to one of them.
struct DeviceEnd {
  Seconds end;
  Seconds without_transfers;
  Seconds start;
  Seconds start_without_transfers;
};

/// The work of a device of one kind: one micro-batch, then the end of a step.
struct StageClassWork {
  PhaseLengths pass;
  Seconds reduction;  ///< exposed gathers and reductions
  Seconds optimizer;  ///< with the copies to the host that no backward hides
};

/// The rest of the key of PlanInvariants: chunks and placement of plans of equal degrees.
struct InvariantsForm {
  int chunks = 1;
  const StageMapping* placement = nullptr;
  bool operator==(const InvariantsForm&) const = default;
};
struct InvariantsFormHash {
  [[nodiscard]] std::size_t operator()(const InvariantsForm& form) const noexcept {
    return std::hash<const StageMapping*>()(form.placement) + static_cast<std::size_t>(form.chunks);
  }
};

struct WindowedStep;
struct WindowedStepDeleter {
  void operator()(WindowedStep* step) const;
};

/// Reusable buffers of one thread; no allocation once they have grown.
struct EvaluationWorkspace {
  /// The last invariants of every form: neighbours in a search differ in form and micro-batch.
  std::unordered_map<InvariantsForm, PlanInvariants, InvariantsFormHash> known_invariants;
  std::vector<GroupLengths> passes;      ///< by content of the assignment
  std::vector<DeviceEnd> ends;           ///< by position
  std::vector<StageClassWork> work;      ///< by kind
  std::vector<TransferTicks> transfers;  ///< by kind of boundary
  PipelineDurations durations;
  std::vector<Ticks> no_transfers;  ///< zeros
  PipelineSimulator simulator;
  std::vector<Bytes> chunk_bytes;
  std::vector<Bytes> weight_bytes;
  std::unique_ptr<WindowedStep, WindowedStepDeleter> windowed;  ///< of the plan priced last
  EarlyPlacement placement;   ///< of the plan that was asked for last
  EarlyPlacement dispatched;  ///< the same, of plans that name a dispatcher with another path
  TriedWaits tried;           ///< of the placement that was asked for last
  EarlyProfile early;         ///< of the class that was asked for last
};

struct PricingInput : PricingContext {
  const PlanInvariants& invariants;
  Order order;

  [[nodiscard]] const Assignment& assignment() const { return *invariants.routed->assignment; }
  [[nodiscard]] const StageLink& boundary(std::size_t index) const {
    return invariants.routed->boundaries[index];
  }
  [[nodiscard]] const GroupContent& content(int index) const {
    return assignment().contents[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const TransformInvariants& transform_of(const GroupContent& content) const {
    return invariants.transforms[static_cast<std::size_t>(content.transform)];
  }
  [[nodiscard]] const TransformInvariants& transform_at(int position) const {
    const DevicePosition& place = assignment().positions[static_cast<std::size_t>(position)];
    return invariants.transforms[static_cast<std::size_t>(place.transform)];
  }
  [[nodiscard]] const std::vector<int>& contents_at(int position) const {
    return assignment().contents_of[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] int kind_of(int position) const {
    return assignment().kind_of[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] const StageClassStates& statics_at(int position) const {
    return invariants.kinds[static_cast<std::size_t>(kind_of(position))];
  }
  [[nodiscard]] PipelineShape shape() const;
  /// Whether a forward and a backward that the order joins overlap.
  [[nodiscard]] OptimizerStart optimizer_start() const;
  [[nodiscard]] bool joins() const;
  /// Passes of a micro-batch through each group, the differentiated one included.
  [[nodiscard]] double forwards() const { return static_cast<double>(problem.network->forwards); }
  /// Micro-batches that pass each group.
  [[nodiscard]] int repeats() const { return order.micro_batches / assignment().replicas; }
};

/// Calls visit(transform) once for each that something on a position has: its own and those of
/// gangs.
template <typename Visit>
void for_each_transform_at(const PricingInput& view, int position, Visit visit) {
  const std::vector<int>& contents = view.contents_at(position);
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const int transform = view.content(contents[i]).transform;
    const bool seen =
        std::any_of(contents.begin(), contents.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](int earlier) { return view.content(earlier).transform == transform; });
    if (!seen) visit(transform);
  }
}

/// Calls visit(profile, block, copies) for every block that a content holds, under the profile that
/// it runs with: two where the first copies alone are recomputed.
template <typename Visit>
void for_each_profile(const PricingInput& view, const GroupContent& content, Visit visit) {
  const TransformInvariants& transform = view.transform_of(content);
  const ClassProfile& profile = *transform.profile;
  for (std::size_t b = 0; b < content.copies.size(); ++b) {
    const double copies = content.copies[b];
    if (copies <= 0.0) continue;
    if (profile.kept == nullptr) {
      visit(profile, b, copies);
      continue;
    }
    const auto again = static_cast<double>(copies_among_first(
        *view.problem.network, content.blocks, b, transform.degrees->recompute_layers));
    if (again > 0.0) visit(profile, b, again);
    if (again < copies) visit(*profile.kept, b, copies - again);
  }
}

/// Calls `visit` with every block of a content that it holds, and the number of copies.
template <typename Visit>
void for_each_block(const PricingInput& view, const GroupContent& content, Visit visit) {
  for_each_profile(view, content, [&](const ClassProfile& profile, std::size_t b, double copies) {
    visit(profile.blocks[b], copies);
  });
}

}  // namespace plansearch
