// SPDX-License-Identifier: Apache-2.0
// One copy of one block on one device for one micro-batch: times, communication, bytes. Computed
// once per equivalence class and shared by every plan of the class.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "communication/placement.hpp"
#include "communication/tensor_policy.hpp"
#include "evaluate/framework_constants.hpp"
#include "plansearch/communication.hpp"
#include "plansearch/device_mesh.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// One pass over one or more blocks: kernels, communication that nothing hides, and the time the
/// processor needs to issue all of it.
struct PassProfile {
  Seconds compute;
  TimeByPurpose exposed{};  ///< communication that nothing hides
  Seconds between_nodes;    ///< the part of `exposed` whose group spans nodes
  Seconds issue;            ///< processor time; the device waits where it is longer than its own

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

/// What one micro-batch of one block holds on one device.
struct BlockMemory {
  Bytes saved;        ///< kept from forward to backward
  Bytes working_set;  ///< kept in addition while its own backward runs
  Bytes loss;         ///< share of `saved` that the loss needs (head block)
  /// Of linear operators with trainable weights: inputs and output gradients, which stay from the
  /// input gradient to a weight gradient that runs later.
  Bytes kept_for_weights;
  Bytes cached;         ///< gathered inputs, freed after use
  Bytes boundary;       ///< output activation, the message to the next stage
  double stream = 0.0;  ///< elements of the residual stream as matmuls read it
  double logits = 0.0;  ///< local elements of vocabulary scores (head block)
};

struct BlockProfile {
  PassProfile forward;
  PassProfile backward;         ///< both gradients
  PassProfile weight_gradient;  ///< the part of `backward` that a schedule may run later
  PassProfile recompute;        ///< forward work repeated before backward
  Seconds forward_length;       ///< of one micro-batch, the wait for the processor included
  Seconds backward_length;      ///< the same, with recompute
  Seconds input_length;   ///< recompute and input gradient, where the weight gradient runs later
  Seconds weight_length;  ///< that weight gradient
  BlockMemory memory;
  ParameterCount parameters;  ///< without shared ones
  std::vector<SharedCount> shared;
  std::vector<PricedCommunication> passes;  ///< inside a pass; counts and times per micro-batch
  /// At the end of the step, one copy of the block; messages of all blocks of a stage go together,
  /// so that only there they get a price.
  std::vector<PricedCommunication> steps;
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

/// Whether the group of these axes has members on more than one node, the first rank of the mesh
/// being the first of its node.
[[nodiscard]] bool spans_nodes(const DeviceMesh& mesh, AxisSet axes, int accelerators_per_node);

/// Which framework switch decides whether this communication is hidden.
[[nodiscard]] Overlap overlap_class(const Communication& demand);

}  // namespace plansearch
