// SPDX-License-Identifier: Apache-2.0
// A network under one placement, whatever the micro-batch and recompute level. PlacedNetwork: into
// how many slices everything is cut, the messages between operators, which parameters a device
// holds. ShardedStates adds the gathers and reductions that the tensor policies ask for, inside a
// pass and at the end of the step.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "communication/derive/derive.hpp"
#include "communication/slices/local_sizes.hpp"
#include "evaluate/block/phase_message.hpp"
#include "evaluate/block/shared_cache.hpp"
#include "evaluate/states/matrix_update.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

/// Local elements of the parameters of a block, before any sharding over data ranks.
struct ParameterCount {
  double dense = 0.0;
  double expert = 0.0;
  double trainable_dense = 0.0;
  double trainable_expert = 0.0;
  double frozen_dense = 0.0;   ///< bytes of those that are not trained
  double frozen_expert = 0.0;  ///< the same
  double other_dense = 0.0;    ///< trained, and not updated as matrices where an optimizer does so
  double other_expert = 0.0;   ///< the same
  ParameterCount& operator+=(const ParameterCount& other);
  friend ParameterCount operator*(ParameterCount count, double copies);
  bool operator==(const ParameterCount&) const = default;
};

/// A parameter with a key: every block that uses it names the same one.
struct SharedCount {
  std::string key;
  ParameterCount count;
};

/// A message of an operator for a micro-batch of one sequence.
struct SequenceMessage {
  Communication communication;
  bool grows = false;  ///< with the sequences of a micro-batch
  [[nodiscard]] double elements(int micro_batch) const {
    return communication.elements * (grows ? micro_batch : 1);
  }
};

/// Local elements of parameters that the depth axis cuts, once they are gathered; 0 with one rank.
struct GatheredElements {
  double all = 0.0;
  double largest = 0.0;  ///< of one launch
};

/// None, Selective, Full: what depends on the level alone is known for all of them at once.
inline constexpr std::size_t kRecomputeLevels = 3;
template <typename T>
using ByRecompute = std::array<T, kRecomputeLevels>;

/// Share of every operator that runs again in backward, by level.
using RepeatedShares = ByRecompute<std::vector<double>>;

/// Operators of a block that run piece by piece.
struct PlacedPieces {
  std::vector<PieceRegion> regions;
  BlockCuts cuts;           ///< of their kernels, and of all others
  RepeatedShares repeated;  ///< as in every plan, and what the pieces run again
};

struct PlacedBlock {
  BlockCuts cuts;
  std::optional<PlacedPieces> pieces;
  std::vector<SequenceMessage> messages;
  GatheredElements gathered;
  ParameterCount parameters;  ///< without shared ones
  std::vector<SharedCount> shared;
  std::vector<MatrixUpdate> updates;  ///< of its matrices, where the optimizer needs them whole
};

/// The blocks under one plan and mesh; plans whose groups have the same sizes share them.
struct PlacedBlocks {
  PlanDegrees plan;                 ///< the one it was made for, with one sequence per micro-batch
  DeviceMesh mesh;                  ///< of that plan: cuts go with its sizes
  std::vector<PlacedBlock> blocks;  ///< by index into Network::blocks
};

/// The waits of one copy of one block on one device.
struct BlockWaits {
  Seconds forward;
  Seconds backward;         ///< both gradients
  Seconds weight_gradient;  ///< the part of `backward` that a schedule may run later
  /// How long input gradients are on their way beside which weight gradients alone run.
  Seconds behind;
  ByRecompute<Seconds> recompute;  ///< forward messages that are sent again
  /// The waits of a forward and a backward side by side: for messages beside which neither runs.
  Seconds beside;
  Seconds exchange;  ///< how long the others of both are on their way, one after the other

  void add(const BlockWaits& other, double copies);
};

/// Kernels of one micro-batch on its way through the network, each on its device.
struct NetworkWork {
  Seconds forward;
  Seconds input_gradient;
  Seconds weight_gradient;
  ByRecompute<Seconds> repeated;

  void add(const NetworkWork& other, double copies);
};

struct PlacedNetwork {
  PlacedNetwork(const DeviceMesh& lying, std::shared_ptr<const PlacedBlocks> blocks,
                std::uint32_t number)
      : mesh(lying), shared(std::move(blocks)), sizes(number) {}

  DeviceMesh mesh;  ///< where ranks lie
  std::shared_ptr<const PlacedBlocks> shared;
  std::uint32_t sizes;                       ///< placements of one number cut everything alike
  FewValues<std::vector<BlockWaits>> waits;  ///< by piece and dispatcher, then by block
  FewValues<NetworkWork> work;               ///< by sequences
  [[nodiscard]] const std::vector<PlacedBlock>& blocks() const { return shared->blocks; }
};

/// Sizes of groups decide, and, between placements of single operators, where their ranks lie.
[[nodiscard]] PlacedBlocks place_blocks(const PricingContext& context, const NetworkIndex& index,
                                        const PlanDegrees& plan, const DeviceMesh& mesh,
                                        const Placements* placements = nullptr);

/// A message at the end of a step, of one copy of a block. Those of all blocks of a stage go
/// together, so that only there they get a price.
struct StepMessage {
  Communication communication;
  Bytes tiles;  ///< of whole tiles: the plans of a class cut them over groups of their own sizes
  /// The key of a parameter that other blocks use as well, else empty. Lives in the network.
  std::string_view shared_key;

  /// The bytes of the piece that a rank sends, on the mesh of a plan.
  [[nodiscard]] Bytes bytes(const DeviceMesh& mesh) const {
    return tiles / static_cast<double>(mesh.size(communication.cut));
  }
};

/// Parameters that live in memory of the host, as a rank copies them for each gather.
struct FetchedBytes {
  Bytes forward;
  Bytes backward;
};

struct KeptBlock {
  std::vector<PhaseMessage> passes;
  std::vector<StepMessage> steps;
  FetchedBytes fetched;
};

struct ShardedStates {
  std::shared_ptr<const PlacedNetwork> placed;
  std::vector<KeptBlock> blocks;  ///< by index into Network::blocks
  /// Gradient reductions of parameters that several blocks use, due when a pipeline parts them.
  std::vector<StepMessage> shared;
};

[[nodiscard]] ShardedStates keep_states(const PricingContext& context, const NetworkIndex& index,
                                        std::shared_ptr<const PlacedNetwork> placed,
                                        const PlacementRules& rules,
                                        const TensorPolicies& policies);

}  // namespace plansearch
