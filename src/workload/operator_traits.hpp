// SPDX-License-Identifier: Apache-2.0
// One row for each kind of operator: the properties that legality, placement, communication,
// memory, recomputation, bounds and prices read. Only builders of networks name kinds.
#pragma once

#include <array>
#include <initializer_list>
#include <string_view>

#include "plansearch/network.hpp"

namespace plansearch {

/// The second factor of a matrix product.
enum class SecondOperand : std::uint8_t {
  None,            ///< not a matrix product
  Weight,          ///< one matrix of parameters
  GroupedWeights,  ///< one matrix of parameters for each group of rows
  Activation,      ///< another input, whose tokens are read as KeySequence
};

/// The differentiable tensors that the backward of an operator reads: they are kept.
enum class BackwardReads : std::uint8_t {
  Nothing,
  Inputs,
  Outputs,
  InputsAndOutputs,
  ByFunction,  ///< the builder lists them: inputs, a mask, nothing
};

/// Whether backward gathers an input again, which is then kept in the smallest layout of its path.
enum class ReadsAgain : std::uint8_t {
  Never,
  Always,            ///< for its weight gradient, where the weight is trained
  FromContextRanks,  ///< keys and values of other context ranks only
};

/// The operation that it is to a recompute policy that lists operations.
enum class PolicyOperation : std::uint8_t { Other, Product, GroupedProduct, FusedAttention };

class RoleSet {
 public:
  constexpr RoleSet() = default;
  constexpr RoleSet(std::initializer_list<DimRole> roles) {
    for (const DimRole role : roles) bits_ |= bit(role);
  }
  [[nodiscard]] constexpr bool contains(DimRole role) const { return (bits_ & bit(role)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }

 private:
  static constexpr std::uint32_t bit(DimRole role) {
    return std::uint32_t{1} << static_cast<unsigned>(role);
  }
  std::uint32_t bits_ = 0;
};

/// All-reduces of row statistics where a dimension of these roles is sharded.
struct RowStatistics {
  RoleSet over;
  int forward = 0;      ///< messages one after the other
  int backward = 0;     ///< the same for the input gradient
  double values = 0.0;  ///< of a row in each message
};

/// The defaults hold for an operator that streams its tensors and sums nothing up.
struct OperatorTraits {
  OperatorKind kind;
  std::string_view word;  ///< in graph files
  std::string_view name;  ///< in messages
  CostClass cost = CostClass::Stream;
  SecondOperand second_operand = SecondOperand::None;
  bool model_flops = false;  ///< its FLOPs count as model FLOPs
  /// A sharded dimension that the output does not carry leaves partial sums. False: statistics are
  /// exchanged, or nothing is contracted.
  bool leaves_partial_sums = false;
  RowStatistics statistics{};
  bool runs_in_steps = false;     ///< rows, columns and sum can be cut over steps: rings, squares
  bool exchanges_tokens = false;  ///< between the order of tokens and that of experts
  bool starts_backward = false;   ///< the loss: its outputs have no gradient
  BackwardReads backward_reads = BackwardReads::ByFunction;
  ReadsAgain reads_again = ReadsAgain::Never;
  PolicyOperation policy = PolicyOperation::Other;
  bool slides = false;         ///< its weight has dimensions of a window that moves over its input
  bool borrows_curve = false;  ///< priced on the curve of another kind: measured for none

  [[nodiscard]] constexpr bool is_product() const { return second_operand != SecondOperand::None; }
  /// Its weight gradient is a product of its own, of its input and its output's gradient.
  [[nodiscard]] constexpr bool multiplies_weight() const {
    return second_operand == SecondOperand::Weight ||
           second_operand == SecondOperand::GroupedWeights;
  }
  [[nodiscard]] constexpr bool reads_inputs() const {
    return backward_reads == BackwardReads::Inputs ||
           backward_reads == BackwardReads::InputsAndOutputs;
  }
  [[nodiscard]] constexpr bool reads_outputs() const {
    return backward_reads == BackwardReads::Outputs ||
           backward_reads == BackwardReads::InputsAndOutputs;
  }
  /// Each element of a result follows from one of each input, or from the few of a window.
  [[nodiscard]] constexpr bool goes_by_element() const {
    return cost == CostClass::Stream && statistics.over.empty() && !exchanges_tokens;
  }
  /// The gradient of each operand reads the other one.
  [[nodiscard]] constexpr bool multiplies_activations() const {
    return second_operand == SecondOperand::Activation;
  }
};

extern const std::array<OperatorTraits, kOperatorKindCount> kOperatorTraits;

/// Whether parts that add up to what it reads make parts of its result: products with weights,
/// whose derivative is the weight, and sums, which keep nothing for backward but the mask of a
/// dropout.
[[nodiscard]] bool is_linear(const Operator& op);

/// Whether a norm takes a dimension of this role group by group (Operator::groups).
[[nodiscard]] constexpr bool lies_in_groups(DimRole role) {
  return role == DimRole::Channel || role == DimRole::Ffn;
}
/// Whether a row of statistics reaches over several of these slices of a dimension: groups that
/// slices do not cut lie whole.
[[nodiscard]] bool reduces_over(const Operator& op, DimRole role, std::int64_t slices);

/// The row of a word of graph files; null if no row has it.
[[nodiscard]] const OperatorTraits* find_traits(std::string_view word);

[[nodiscard]] inline const OperatorTraits& traits(OperatorKind kind) {
  return kOperatorTraits[static_cast<std::size_t>(kind)];
}
[[nodiscard]] inline const OperatorTraits& traits(const Operator& op) {
  return traits(op.kind);
}

}  // namespace plansearch
