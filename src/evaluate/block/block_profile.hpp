// SPDX-License-Identifier: Apache-2.0
// One copy of one block on one device for one micro-batch: times, communication, bytes. Computed
// once per equivalence class and shared by every plan of the class.
#pragma once

#include <span>
#include <vector>

#include "evaluate/block/least_waits.hpp"
#include "evaluate/block/local_work.hpp"
#include "evaluate/block/placed_network.hpp"
#include "plansearch/concurrency.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// One pass over one or more blocks: kernels, communication that nothing hides, and the time the
/// host CPU needs to issue all of it.
struct PassProfile {
  Seconds compute;
  TimeByPurpose exposed{};  ///< communication that nothing hides
  Seconds between_nodes;    ///< the part of `exposed` whose group spans nodes
  Seconds issue;            ///< host CPU time; the device waits where it is longer than its own

  [[nodiscard]] Seconds exposed_total() const;
  /// Compute and exposed communication.
  [[nodiscard]] Seconds device() const;
  /// Wall time: the device waits for its host CPU where that takes longer.
  [[nodiscard]] Seconds length() const;
  void add(const PassProfile& other, double copies);
  bool operator==(const PassProfile&) const = default;
};

/// Wall time of passes that run back to back, so that one's waits hide in the other's work.
[[nodiscard]] Seconds joint_length(const PassProfile& first, const PassProfile& second);

/// How long the passes of one copy of a block take.
struct BlockTimes {
  PassProfile forward;
  PassProfile backward;         ///< both gradients
  PassProfile weight_gradient;  ///< the part of `backward` that a schedule may run later
  PassProfile input_gradient;   ///< the rest of `backward`, where the weight gradient runs later
  PassProfile recompute;        ///< forward work repeated before backward
  Seconds forward_length;       ///< of one micro-batch, the wait for the host CPU included
  Seconds backward_length;      ///< the same, with recompute
  Seconds input_length;   ///< recompute and input gradient, where the weight gradient runs later
  Seconds weight_length;  ///< that weight gradient
  /// The waits of a run of copies besides, however many they are: the first gathers, the last
  /// reductions.
  PassProfile forward_edges;
  PassProfile backward_edges;  ///< with those of recomputation
  /// A forward of one micro-batch and a whole backward of another side by side, where the order
  /// joins them; and what a run of copies takes besides.
  Seconds joined_length;
  Seconds joined_edges;
};

/// Spans point into data of the ClassProfile that holds the profile.
struct BlockProfile : BlockTimes {
  BlockMemory memory;
  ParameterCount parameters;  ///< without shared ones
  std::span<const SharedCount> shared;
  std::span<const MatrixUpdate> updates;  ///< of its matrices
  std::span<const StepMessage> steps;     ///< at the end of the step, see KeptBlock
};

/// How long copies to and from the host take for one copy of a block.
struct HostCopies {
  Seconds forward;            ///< beside the pass, of the slower direction
  Seconds backward;           ///< the same, recomputation included
  Seconds between_forward{};  ///< between kernels, which wait for them
  Seconds between_backward{};
  bool operator==(const HostCopies&) const = default;
};

/// The parts of one block, and what recomputes and issues it.
struct BlockParts {
  const Block& block;
  const BlockWork& work;  ///< of one piece of a micro-batch
  const KeptBlock& kept;  ///< for all pieces together
  int pieces = 1;
  Recompute recompute = Recompute::None;
  const std::vector<double>& repeated;  ///< by operator: the share that is run again
  KernelSum again;                      ///< kernels of these shares, of one piece
  bool sends_again = false;             ///< operators that run again send their messages again
  const ConcurrencyRates& rates;
  Seconds skew;                 ///< host CPU time per rank of a tensor-parallel collective
  bool splits_backward = true;  ///< some order of the framework runs weight gradients later
  BlockWaits waits{};           ///< of one piece, for messages that are not listed one by one
  bool joins = false;  ///< the order joins forwards and backwards, and the framework overlaps them
  HostCopies copies{};
};

/// A communication inside a pass and what nothing hides of it.
struct PhaseLine {
  PricedCommunication line;  ///< counts and times per micro-batch and copy
  Seconds edge;              ///< exposed besides, by a whole run of copies
};

/// Adds up the passes of a block. `lines`, where asked for, gets every communication inside a pass.
void sum_passes(const PricingContext& context, const BlockParts& parts, BlockTimes& profile,
                std::vector<PhaseLine>* lines = nullptr);

/// Whether some order of the framework runs weight gradients later.
[[nodiscard]] bool some_order_splits(const Framework& framework);

}  // namespace plansearch
