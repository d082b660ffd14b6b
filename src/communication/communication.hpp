// SPDX-License-Identifier: Apache-2.0
// What must be communicated: derived from placement and policies, never declared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "communication/redistribution.hpp"
#include "plansearch/device_mesh.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/network.hpp"
#include "plansearch/scope.hpp"

namespace plansearch {

/// What `Communication::index` counts.
enum class Subject : std::uint8_t {
  Activation,          ///< index: TensorId
  ActivationGradient,  ///< index: TensorId
  Statistics,          ///< index: operator; row statistics of norm, softmax, loss
  Parameter,           ///< index: ParameterId, or kWholeBlock
  Gradient,            ///< index: ParameterId, or kWholeBlock
};
inline constexpr std::uint32_t kWholeBlock = UINT32_MAX;

/// Which entry of the precision policy gives the bytes of one element.
enum class WireClass : std::uint8_t {
  Activation,
  Statistic,
  Logit,
  Index,
  Mask,
  Parameter,
  Gradient
};
[[nodiscard]] DataType wire_type(WireClass wire, const PrecisionPolicy& precision);
/// Bytes of one element on the wire.
[[nodiscard]] Bytes wire_size(WireClass wire, const PrecisionPolicy& precision);

/// When in a step: the three products, or the end of the step.
enum class DemandPhase : std::uint8_t { Forward, InputGradient, WeightGradient, Step };

/// On which side of its operator, in that phase, the communication stands.
enum class Side : std::uint8_t { Before, After };

struct Communication {
  Subject subject = Subject::Activation;
  CommunicationKind kind = CommunicationKind::AllReduce;
  WireClass wire = WireClass::Activation;
  DemandPhase phase = DemandPhase::Forward;
  Scope scope = Scope::Use;
  Side side = Side::Before;
  RecomputeGather on_recompute = RecomputeGather::Repeated;  ///< runs again in a recomputation?
  AxisSet axes;
  std::uint32_t index = 0;
  std::uint32_t operator_index = 0;
  int group_size = 1;
  int count = 1;          ///< messages of this size, one after the other
  double elements = 0.0;  ///< of one message, nccl-tests convention
  bool operator==(const Communication&) const = default;
};

/// The name of what moves: "mlp.up", "gradient of mlp.hidden", "block parameters".
[[nodiscard]] std::string subject_name(const Block& block, const Communication& demand);
/// "all-reduce out x8 4096 elements after 3 forward" for messages and tests.
[[nodiscard]] std::string to_text(const Communication& demand);
[[nodiscard]] std::string_view to_text(DemandPhase phase);

}  // namespace plansearch
