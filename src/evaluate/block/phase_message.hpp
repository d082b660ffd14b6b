// SPDX-License-Identifier: Apache-2.0
// A communication inside a pass with its price and its name, before anyone asks what hides it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "communication/redistribution/step_rates.hpp"
#include "cost/collective/collective_cost.hpp"
#include "plansearch/communication.hpp"
#include "plansearch/device_mesh.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/network.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

/// The problem and what its framework fixes for every plan.
struct PricingContext {
  const Problem& problem;
  const FrameworkConstants& constants;
  const PrecisionPolicy& precision;
  std::uint64_t id = 0;  ///< a number of its own for every such context of the process
  /// Nothing where every tensor is read or written once.
  std::array<const OperatorPasses*, kMemoryBoundCount> passes{};
};
/// The problem must outlive the context.
[[nodiscard]] PricingContext pricing_context(const Problem& problem);

/// One call of a collective inside a training step.
struct CallPrice {
  CollectiveCost cost;
  Seconds issue;  ///< launch and skew, beyond what an isolated call takes
};
/// The same calls come back under many plans: every thread keeps what it has priced.
[[nodiscard]] CallPrice price_call(const PricingContext& context, CommunicationKind kind,
                                   Bytes bytes, const ProcessGroup& group);
/// Tokens on their way to experts or back, by a dispatcher.
[[nodiscard]] CallPrice price_exchange(const PricingContext& context,
                                       const TokenDispatcher& dispatcher, Bytes bytes,
                                       const ProcessGroup& group);

struct PhaseMessage {
  Communication communication;
  Bytes bytes;       ///< full message, nccl-tests convention
  Bytes wire_bytes;  ///< sent by one device per call
  Seconds time;      ///< one call
  Seconds transfer;  ///< the part of `time` in which bytes move
  Overlap overlap = Overlap::TensorParallel;
  Purpose purpose = Purpose::Tensor;
  bool between_nodes = false;
  bool one_domain = true;                    ///< all ranks are joined by fast links
  DispatcherId dispatcher = kOwnDispatcher;  ///< of the plan
};

/// `elements` of one call, which need not be those of one sequence that `communication` holds.
/// `fullest`: tokens of the fullest rank over the mean; an exchange of tokens takes as long as that
/// rank does, its bytes are the mean.
[[nodiscard]] PhaseMessage price_message(const PricingContext& context, const DeviceMesh& mesh,
                                         const Communication& communication, double elements,
                                         double fullest = 1.0,
                                         DispatcherId dispatcher = kOwnDispatcher);

/// Parameters and their gradients: posted ahead of the block that needs them, awaited behind the
/// one that made them.
[[nodiscard]] inline bool is_posted_ahead(const PhaseMessage& message) {
  return message.overlap == Overlap::ParameterGather ||
         message.overlap == Overlap::GradientReduction;
}

[[nodiscard]] const OverlapRule& rule_of(const PricingContext& context, Overlap kind);

/// The share of the message that kernels hide where their order of issue is not described. Tensor
/// messages travel through user buffers, which one domain of fast links has. None for tokens
/// under a dispatcher that was named, unless the rule is for any: the share is the average of runs
/// that do not say how tokens travel.
[[nodiscard]] double hidden_share(const PricingContext& context, const PhaseMessage& message);

/// The part of a message that a framework hides by its share, and the part kernels wait for.
struct SharedTime {
  Seconds hidden;
  Seconds exposed;  ///< with what hiding it costs the kernels
};
/// `calls` of the message; `window`: the kernel time that is left to hide behind.
[[nodiscard]] SharedTime share_of(const PricingContext& context, const PhaseMessage& message,
                                  double calls, Seconds window);

/// Whether the group of these axes has members on more than one node, the first rank of the mesh
/// being the first of its node.
[[nodiscard]] bool spans_nodes(const DeviceMesh& mesh, AxisSet axes, int accelerators_per_node);

/// Which framework switch decides whether this communication is hidden.
[[nodiscard]] Overlap overlap_class(const Communication& demand);

/// As `subject_name`, but the parameters of one launch by all their names where they go together.
[[nodiscard]] std::string message_name(const Block& block, const Communication& message,
                                       ParameterUnit unit);

/// Nanoseconds per element that a device sends in a message so long that latencies do not count,
/// with all sister groups active. Context and mesh outlive it.
class LinkRates : public StepRates {
 public:
  LinkRates(const PricingContext& context, const DeviceMesh& mesh)
      : context_(context), mesh_(mesh) {}

  /// The rates that order paths between layouts; null where not every sequence of steps is tried.
  [[nodiscard]] const StepRates* of_paths() const;

 private:
  [[nodiscard]] double find(CommunicationKind kind, AxisSet axes) const override;

  const PricingContext& context_;
  const DeviceMesh& mesh_;
};

}  // namespace plansearch
