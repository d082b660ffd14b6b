// SPDX-License-Identifier: Apache-2.0
// The profile that all plans of one equivalence class share, and its keys.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "evaluate/block/block_profile.hpp"
#include "plansearch/evaluator.hpp"

namespace plansearch {

/// Bytes kept per local parameter element, before sharding is divided out.
struct ModelStateBytes {
  double parameter = 0.0;
  double share = 0.0;  ///< of a parameter, that a rank keeps
  double gradient = 0.0;
  double gradient_pieces = 1.0;  ///< ranks that share a gradient (a number)
  double gradient_unit = 0.0;    ///< the same, of one block at a time
  double optimizer = 0.0;
  double optimizer_traffic = 0.0;  ///< read and written by one optimizer step
  double second_moment = 0.0;      ///< besides, of what AdamW updates beside Muon
  double updaters = 1.0;           ///< ranks among which whole matrices are dealt out (a number)
  /// The same in memory of the host: what is updated there, and parameters that live there.
  double host = 0.0;
  double host_frozen = 0.0;  ///< share of a parameter that is not trained
  double host_traffic = 0.0;
  double host_parameter = 0.0;    ///< copied to the device after the update
  double host_share = 0.0;        ///< of the elements, what a rank updates
  double gradient_at_step = 0.0;  ///< copied to the host once per step
  double gradient_reduced = 0.0;  ///< copied there and back as micro-batches reduce it
};

struct ClassProfile {
  std::vector<BlockProfile> blocks;  ///< by index into Network::blocks
  /// Gradient reductions of parameters that several blocks use, due when a pipeline parts them.
  std::span<const StepMessage> shared;

  std::shared_ptr<const LocalMemory> memory;
  std::shared_ptr<const ShardedStates> states;
  std::shared_ptr<const LocalWork> work;
  PlanDegrees made_for;     ///< one of the plans of the class
  std::uint64_t maker = 0;  ///< id of the PricingContext it was made in
  Recompute recompute = Recompute::None;
  std::uint8_t modules = 0;  ///< PlanDegrees::modules
  bool joins = false;        ///< with the times of a forward beside a backward
  /// Where some layers of a chunk alone are recomputed: the profile of the others.
  std::shared_ptr<const ClassProfile> kept;
  Seconds skew;  ///< see BlockParts
};

/// The profile of a class before its messages have a price.
struct EarlyProfile {
  std::uint64_t context = 0;  ///< of whose constants; 0: none
  bool timed = false;         ///< with the times of kernels, and of the messages that they wait
  DispatcherId dispatcher = kOwnDispatcher;  ///< for, tokens under this one
  std::shared_ptr<const PlacedNetwork> placed;
  ClassProfile profile;
  ClassProfile kept;  ///< where `profile.kept` points to it
};

/// Sharding of the static memory of one plan: cheap, computed per plan, not per class.
struct ModelStatePolicy {
  ModelStateBytes dense;
  ModelStateBytes expert;
};
[[nodiscard]] ModelStatePolicy static_policy(const TensorPolicies& policies, const DeviceMesh& mesh,
                                             double moments);

/// The part that plans share which differ in micro-batches, recomputation and order only.
struct EarlyPlacement {
  std::uint64_t context = 0;  ///< of whose constants; 0: none
  PlanDegrees degrees;        ///< what it does not depend on set to defaults
  ModelStatePolicy statics;
  std::shared_ptr<const PlacedNetwork> placed;
};

/// The waits of pieces under each dispatcher that searches try, in their order.
struct TriedWaits {
  std::uint64_t context = 0;                    ///< of whose constants; 0: none
  std::shared_ptr<const PlacedNetwork> placed;  ///< under the framework's own dispatcher
  std::vector<Piece> pieces;
  std::vector<BlockWaits> waits;  ///< dispatcher by dispatcher, piece after piece
};

/// Everything the states of a class depend on; equal keys have equal states. The number of
/// sequences and the recompute level come on top of it.
struct StatesKey {
  PlanDegrees plan;  ///< with the fields set to 1 that do not matter
  /// Where the ranks of an axis lie: size and stride, or a hash of them where there are gaps.
  std::array<std::uint64_t, kRoleCount> axes{};
  int ranks = 1;                 ///< of the world, as far as they decide where groups lie
  std::uint32_t placements = 0;  ///< number of what the plan says of single operators; 0: nothing
  [[nodiscard]] std::size_t hash() const noexcept;
  bool operator==(const StatesKey&) const = default;
};
[[nodiscard]] StatesKey states_key(const PlanDegrees& plan, const DeviceMesh& mesh,
                                   const Problem& problem, std::uint32_t placements = 0);
/// The dispatcher as far as placements depend on it: one for each path of tokens.
[[nodiscard]] DispatcherId placed_dispatcher(const Framework& framework, DispatcherId id);
/// The part of it that the placement depends on: no policies, no sizes of data groups.
[[nodiscard]] StatesKey placement_key(StatesKey key, const DeviceMesh& mesh,
                                      const Cluster& cluster);

}  // namespace plansearch
