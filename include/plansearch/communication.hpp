// SPDX-License-Identifier: Apache-2.0
// Communication, derived from placement and policies and never declared, and its price.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "plansearch/axis.hpp"
#include "plansearch/communication_kind.hpp"
#include "plansearch/data_type.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/network.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// The subject of a message; it says what `Communication::index` counts.
enum class Subject : std::uint8_t {
  Activation,          ///< index: TensorId
  ActivationGradient,  ///< index: TensorId
  Statistics,          ///< index: operator; row statistics of norm, softmax, loss
  Parameter,           ///< index: ParameterId, or kWholeBlock
  Gradient,            ///< index: ParameterId, or kWholeBlock
  Update,              ///< the same; what an optimizer needs of other ranks to update a matrix
};
inline constexpr std::uint32_t kWholeBlock = UINT32_MAX;

/// Which entry of the precision policy gives the bytes of one element.
enum class WireClass : std::uint8_t {
  Activation,
  Token,  ///< an activation on its way to experts, or a gradient on its way back to them
  Statistic,
  Logit,
  Index,
  Mask,
  Parameter,
  Gradient,
  Moment,
  Product,  ///< of the optimizer's own products
};
[[nodiscard]] DataType wire_type(WireClass wire, const PrecisionPolicy& precision);
/// Bytes of one element on the wire.
[[nodiscard]] Bytes wire_size(WireClass wire, const PrecisionPolicy& precision);

/// When in a step: the three products, or the end of the step.
enum class DemandPhase : std::uint8_t { Forward, InputGradient, WeightGradient, Step };

/// The side of its operator on which the communication stands, in that phase.
enum class Side : std::uint8_t { Before, After };

/// `Communication::reader` of messages that belong to no tensor between two operators (statistics,
/// rings, parameters), and of a tensor that the next block reads.
inline constexpr std::uint32_t kNoReader = UINT32_MAX;
inline constexpr std::uint32_t kNextBlock = UINT32_MAX - 1;

struct Communication {
  Subject subject = Subject::Activation;
  CommunicationKind kind = CommunicationKind::AllReduce;
  WireClass wire = WireClass::Activation;
  DemandPhase phase = DemandPhase::Forward;
  Scope scope = Scope::Use;
  Side side = Side::Before;
  RecomputeGather on_recompute = RecomputeGather::Repeated;  ///< runs again in a recomputation?
  AxisSet axes;
  AxisSet cut;  ///< axes that cut a parameter's tile before: `elements` are of one piece
  std::uint32_t index = 0;
  std::uint32_t operator_index = 0;
  std::uint32_t reader = kNoReader;  ///< operator the tensor is for, or whose gradient comes back
  int group_size = 1;
  int count = 1;          ///< messages of this size, one after the other
  int steps = 1;          ///< of the operator during which tiles travel; 1: no such message
  double elements = 0.0;  ///< of one message, nccl-tests convention
  bool operator==(const Communication&) const = default;
};

/// The purpose of communication, as a word of a step's breakdown. It follows from the tensor and
/// the axes over which it moves, not from a requested strategy.
enum class Purpose : std::uint8_t {
  Tensor,    ///< activations of operators that several devices compute together
  Data,      ///< parameters and gradients of replicas and shards
  Context,   ///< activations of one sequence that several devices hold
  Expert,    ///< tokens on their way to experts and back
  Pipeline,  ///< between stages
  Offload,   ///< between a device and memory of its host
};
inline constexpr std::size_t kPurposeCount = 6;
[[nodiscard]] std::string_view to_text(Purpose purpose);
[[nodiscard]] Purpose purpose_of(const Communication& communication);
/// Whether tokens go to experts or come back from them.
[[nodiscard]] bool exchanges_tokens(const Communication& communication);

/// Seconds of a step or a pass by what they were spent for.
using TimeByPurpose = std::array<Seconds, kPurposeCount>;

/// A communication with its price. `count` and `exposed` are per micro-batch and copy of the block
/// inside a class profile, per step in a report; calls that a recomputation repeats included.
struct PricedCommunication {
  Communication communication;
  std::string what{};  ///< name of what moves; filled in for reports
  Bytes bytes{};       ///< full message, nccl-tests convention
  Bytes wire_bytes{};  ///< sent by one device per call
  double count = 0.0;
  Seconds time{};     ///< one call
  Seconds exposed{};  ///< what nothing hides, of all calls
  /// Key of a parameter that other blocks use as well; empty for the others.
  std::string shared_key{};
  bool operator==(const PricedCommunication&) const = default;
};

/// The name of what moves: "mlp.up", "gradient of mlp.hidden", "block parameters".
[[nodiscard]] std::string subject_name(const Block& block, const Communication& demand);
[[nodiscard]] std::string_view to_text(DemandPhase phase);

}  // namespace plansearch
