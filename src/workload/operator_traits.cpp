// SPDX-License-Identifier: Apache-2.0
#include "workload/operator_traits.hpp"

#include <algorithm>

namespace plansearch {

using K = OperatorKind;

constexpr std::array<OperatorTraits, kOperatorKindCount> kOperatorTraits = {{
    {.kind = K::Matmul,
     .word = "product",
     .name = "matmul",
     .cost = CostClass::Product,
     .second_operand = SecondOperand::Weight,
     .model_flops = true,
     .leaves_partial_sums = true,
     .runs_in_steps = true,
     .backward_reads = BackwardReads::Inputs,
     .reads_again = ReadsAgain::Always,
     .policy = PolicyOperation::Product},
    {.kind = K::BatchedMatmul,
     .word = "batched-product",
     .name = "batched matmul",
     .cost = CostClass::ActivationProduct,
     .second_operand = SecondOperand::Activation,
     .model_flops = true,
     .leaves_partial_sums = true,
     .backward_reads = BackwardReads::Inputs,
     .reads_again = ReadsAgain::FromContextRanks},
    {.kind = K::Attention,
     .word = "attention",
     .name = "fused attention",
     .cost = CostClass::FusedAttention,
     .second_operand = SecondOperand::Activation,
     .model_flops = true,
     .leaves_partial_sums = true,
     .backward_reads = BackwardReads::InputsAndOutputs,
     .reads_again = ReadsAgain::FromContextRanks,
     .policy = PolicyOperation::FusedAttention},
    {.kind = K::GroupedMatmul,
     .word = "grouped-product",
     .name = "grouped matmul",
     .cost = CostClass::GroupedProduct,
     .second_operand = SecondOperand::GroupedWeights,
     .model_flops = true,
     .leaves_partial_sums = true,
     .backward_reads = BackwardReads::Inputs,
     .policy = PolicyOperation::GroupedProduct},
    {.kind = K::Norm,
     .word = "norm",
     .name = "norm",
     // Sum and sum of squares.
     .statistics = {{DimRole::Hidden, DimRole::HeadSize, DimRole::Latent, DimRole::Pixel,
                     DimRole::Channel, DimRole::Ffn},
                    1,
                    1,
                    2.0},
     .backward_reads = BackwardReads::Inputs},
    {.kind = K::Softmax,
     .word = "softmax",
     .name = "softmax",
     // Maximum, then sum.
     .statistics = {{DimRole::KeySequence, DimRole::ExpertChoice}, 2, 1, 1.0},
     .backward_reads = BackwardReads::Outputs},
    {.kind = K::Elementwise,
     .word = "elementwise",
     .name = "element-wise operator",
     .leaves_partial_sums = true},
    {.kind = K::Embedding,
     .word = "embedding",
     .name = "embedding",
     .cost = CostClass::LookUp,
     .leaves_partial_sums = true,
     .backward_reads = BackwardReads::Nothing},
    {.kind = K::CrossEntropy,
     .word = "cross-entropy",
     .name = "cross-entropy",
     .cost = CostClass::Loss,
     // Maximum, target logit, sum. The gradient is that of a row's own entries.
     .statistics = {{DimRole::Vocab}, 3, 0, 1.0},
     .starts_backward = true,
     .backward_reads = BackwardReads::Outputs},
    {.kind = K::Route, .word = "route", .name = "choice of experts", .leaves_partial_sums = true},
    {.kind = K::Dispatch,
     .word = "dispatch",
     .name = "dispatch to experts",
     .exchanges_tokens = true,
     .backward_reads = BackwardReads::Nothing},
    {.kind = K::Combine,
     .word = "combine",
     .name = "combination of experts",
     .exchanges_tokens = true},
    {.kind = K::Convolution,
     .word = "convolution",
     .name = "convolution",
     .cost = CostClass::Product,  // of its patches, which are not written out
     .second_operand = SecondOperand::Weight,
     .model_flops = true,
     .leaves_partial_sums = true,
     .backward_reads = BackwardReads::Inputs,
     .slides = true,
     .borrows_curve = true},
    {.kind = K::DepthwiseConvolution,
     .word = "depthwise-convolution",
     .name = "depthwise convolution",
     // A few products an element that it reads: bound by memory, whatever its taps.
     .cost = CostClass::Stream,
     .second_operand = SecondOperand::Weight,
     .model_flops = true,
     .leaves_partial_sums = true,
     .backward_reads = BackwardReads::Inputs,
     .slides = true,
     .borrows_curve = true},
    {.kind = K::Recurrence,
     .word = "recurrence",
     .name = "recurrence",
     .cost = CostClass::Recurrence,
     .model_flops = true},
    {.kind = K::Scores,
     .word = "scores",
     .name = "choice of keys",
     .cost = CostClass::Scores,
     .second_operand = SecondOperand::Activation,
     .model_flops = true},
}};

namespace {

/// Rows are found by their place; a sharded reduction is either summed or exchanged as statistics.
constexpr bool is_table() {
  for (std::size_t i = 0; i < kOperatorKindCount; ++i) {
    const OperatorTraits& row = kOperatorTraits[i];
    if (static_cast<std::size_t>(row.kind) != i || row.name.empty() || row.word.empty())
      return false;
    if (row.leaves_partial_sums && !row.statistics.over.empty()) return false;
  }
  return true;
}
static_assert(is_table());

}  // namespace

bool is_linear(const Operator& op) {
  const OperatorTraits& row = traits(op);
  if (row.multiplies_weight()) return true;
  const bool sum = op.passes == MemoryBound::Residual || op.passes == MemoryBound::DropoutResidual;
  return row.goes_by_element() && op.parameters.empty() && (sum || op.saved.empty());
}

bool reduces_over(const Operator& op, DimRole role, std::int64_t slices) {
  if (!traits(op).statistics.over.contains(role)) return false;
  return !lies_in_groups(role) || op.groups % slices != 0;
}

const OperatorTraits* find_traits(std::string_view word) {
  const auto* found = std::ranges::find(kOperatorTraits, word, &OperatorTraits::word);
  return found == kOperatorTraits.end() ? nullptr : found;
}

}  // namespace plansearch
