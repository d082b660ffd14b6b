// SPDX-License-Identifier: Apache-2.0
// Communication as a consequence of placement and policies. Nothing here knows a strategy by name.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "communication/derive/placement.hpp"
#include "communication/derive/tensor_policy.hpp"
#include "communication/redistribution/step_rates.hpp"
#include "plansearch/communication.hpp"

namespace plansearch {

/// Buffers that one thread keeps from one derivation to the next.
struct DerivationScratch;
struct DerivationScratchDeleter {
  void operator()(DerivationScratch* scratch) const;
};
using DerivationScratchPtr = std::unique_ptr<DerivationScratch, DerivationScratchDeleter>;
[[nodiscard]] DerivationScratchPtr make_derivation_scratch();

/// Buffers with which one thread derives a network, block by block.
struct DerivationBuffers {
  BlockPlacement placement;
  DerivationScratchPtr derivation = make_derivation_scratch();
  std::vector<Communication> demands;
};

/// The placement of one block, which all its communication follows from.
struct DerivationInput {
  const Network& network;
  const Block& block;
  const BlockIndex& index;
  const PlacementRules& rules;
  const BlockPlacement& placement;
  const ShardingRules& sharding;
  TokenPath tokens = TokenPath::Pairs;
  const StepRates* rates = nullptr;  ///< without: every element moved costs the same
};

/// Communication between the operators of one copy of a block and inside them: activations and
/// their gradients, regathered inputs of weight gradients, row statistics, rings. No tensor policy
/// matters.
void derive_operator_communication(const DerivationInput& input, DerivationScratch& scratch,
                                   std::vector<Communication>& demands);
/// Communication of parameters and gradients. The number of sequences does not matter.
void derive_parameter_communication(const DerivationInput& input, const TensorPolicies& policies,
                                    DerivationScratch& scratch,
                                    std::vector<Communication>& demands);

/// The order of both lists: by phase, then by operator in the order that phase visits them. Operator
/// communication comes before equals.
[[nodiscard]] bool comes_before(const Communication& a, const Communication& b);

/// Whether a message of operators grows with the sequences of a micro-batch.
[[nodiscard]] bool grows_with_micro_batch(const Network& network, const Block& block,
                                          const Communication& demand);

/// The blocks one pipeline stage holds.
using StageBlocks = std::vector<std::vector<std::size_t>>;

/// Parameters that live on several stages (tied embeddings): one gradient all-reduce per step over
/// the stages that hold them, on the elements of one copy.
struct SharedGradient {
  std::string_view key;  ///< of the parameter; lives in the network
  Communication communication;
};
[[nodiscard]] std::vector<SharedGradient> derive_shared_parameters(const Network& network,
                                                                   const PlacementRules& rules,
                                                                   const StageBlocks& stages,
                                                                   const TensorPolicies& policies);

}  // namespace plansearch
