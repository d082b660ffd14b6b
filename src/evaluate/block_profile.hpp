// SPDX-License-Identifier: Apache-2.0
// One copy of one block on one device for one micro-batch: times, communication, bytes. Computed
// once per equivalence class and shared by every plan of the class.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "communication/communication.hpp"
#include "communication/placement.hpp"
#include "communication/tensor_policy.hpp"
#include "evaluate/framework_constants.hpp"
#include "plansearch/device_mesh.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// One pass over one or more blocks: kernels, communication that nothing hides, and the time the
/// processor needs to issue all of it.
struct PassProfile {
  Seconds compute;
  std::array<Seconds, kAxisCount> exposed{};
  Seconds issue;  ///< processor time; the device waits where it is longer than its own

  [[nodiscard]] Seconds exposed_total() const;
  /// Compute and exposed communication.
  [[nodiscard]] Seconds device() const;
  /// Wall time: the device waits for its processor where that takes longer.
  [[nodiscard]] Seconds length() const;
  void add(const PassProfile& other, double copies);
  bool operator==(const PassProfile&) const = default;
};

/// Wall time of passes that run back to back, so that one's waits hide in the other's work.
[[nodiscard]] Seconds joint_length(const PassProfile& first, const PassProfile& second);

/// Local elements of the parameters of a block, before any sharding over data ranks.
struct ParameterCount {
  double dense = 0.0;
  double expert = 0.0;
  double trainable_dense = 0.0;
  double trainable_expert = 0.0;
  ParameterCount& operator+=(const ParameterCount& other);
  friend ParameterCount operator*(ParameterCount count, double copies);
  bool operator==(const ParameterCount&) const = default;
};

/// A parameter with a key: every block that uses it names the same one.
struct SharedCount {
  std::string key;
  ParameterCount count;
};

/// A collective at the end of the step; messages of all blocks of a stage go together.
struct StepDemand {
  Communication demand;
  Bytes bytes;  ///< of one copy of the block
  /// Of a parameter that other blocks use as well; empty for the others.
  std::string shared_key{};
};

/// A collective inside a pass, priced.
struct PassDemand {
  Communication demand;
  Bytes bytes;
  Bytes wire_bytes;
  Seconds time;     ///< one message
  Seconds exposed;  ///< of all its messages, per micro-batch and copy of the block
};

/// What one micro-batch of one block holds on one device.
struct BlockMemory {
  Bytes saved;          ///< kept from forward to backward
  Bytes working_set;    ///< kept in addition while its own backward runs
  Bytes loss;           ///< share of `saved` that the loss needs (head block)
  Bytes cached;         ///< gathered inputs, freed after use
  Bytes boundary;       ///< output activation, the message to the next stage
  double stream = 0.0;  ///< elements of the residual stream as matmuls read it
  double logits = 0.0;  ///< local elements of vocabulary scores (head block)
};

struct BlockProfile {
  PassProfile forward;
  PassProfile backward;     ///< both gradients
  PassProfile recompute;    ///< forward work repeated before backward
  Seconds forward_length;   ///< of one micro-batch, the wait for the processor included
  Seconds backward_length;  ///< the same, with recompute
  BlockMemory memory;
  ParameterCount parameters;  ///< without shared ones
  std::vector<SharedCount> shared;
  std::vector<PassDemand> passes;
  std::vector<StepDemand> steps;
};

/// Everything a class shares: the plan's placement on the mesh and the policies of its tensors.
struct ClassContext {
  const Problem& problem;
  const FrameworkConstants& constants;
  const PrecisionPolicy& precision;
  const PlanDegrees& plan;
  PlacementRules rules;
  TensorPolicies policies;
};

[[nodiscard]] BlockProfile profile_block(const ClassContext& context, const Block& block);

/// Which framework switch decides whether this communication is hidden.
[[nodiscard]] Overlap overlap_class(const Communication& demand);

}  // namespace plansearch
