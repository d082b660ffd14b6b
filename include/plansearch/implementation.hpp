// SPDX-License-Identifier: Apache-2.0
// Which of several implementations of the same mathematics a framework runs, as far as they differ
// in what they keep from forward to backward. Data of a framework file (docs/frameworks.md).
#pragma once

#include <cstdint>

namespace plansearch {

/// The result of an unfused softmax that its backward reads.
enum class SoftmaxResult : std::uint8_t {
  AsIs,    ///< one kernel in the activation format (Megatron's scaled masked softmax)
  Single,  ///< fp32, with a copy in the activation format that the next product keeps
};

/// The tensor that the backward of an RMS norm reads.
enum class NormInput : std::uint8_t {
  AsIs,    ///< the input
  Single,  ///< an fp32 copy of the input, and the normalised input before the weight
};

/// Which part of a layer a norm runs in that one product alone reads.
enum class NormPart : std::uint8_t {
  Own,      ///< its own, so that it can run again by itself
  Product,  ///< that of the product: one kernel
};

/// The value of attention where it is a part of a wider product.
enum class ValueStorage : std::uint8_t {
  Copy,  ///< a tensor of its own
  View,  ///< a view, which keeps all of the product's result alive
};

/// A gated activation (SwiGLU).
enum class GatedActivation : std::uint8_t {
  OneKernel,  ///< keeps its input alone
  Separate,   ///< the activation and the product with the gate, each with what it keeps
};

/// The place where a mixture of experts multiplies by the weights of routed tokens, which decides
/// the tensors that their gradient needs.
enum class ExpertWeights : std::uint8_t {
  InActivation,     ///< in the kernel of a gated activation, from its input; else AfterActivation
  AfterActivation,  ///< activation before and after
  AtOutput,         ///< expert outputs
  AtOutputSingle,   ///< expert outputs (or inputs) in an fp32 copy
};

/// The form in which the router's product keeps its input.
enum class RouterInput : std::uint8_t {
  AsIs,     ///< the tensor the experts read
  Single,   ///< an fp32 copy
  AsModel,  ///< an fp32 copy where the model's own code casts it
};

/// Grouped keys and values under fused attention.
enum class GroupedHeads : std::uint8_t {
  Shared,   ///< the kernel reads one copy for the query heads of a group
  AsModel,  ///< copied to every query head where the model's own code does so
};

/// The logits that a loss reads.
enum class LossInput : std::uint8_t {
  AsProduced,  ///< in the activation format; kernels of the loss change it where they need to
  Single,      ///< an fp32 copy that the model makes, which is kept; but of losses by chunks
};

/// The exchange of context ranks for a recurrence, which takes its tokens in order.
enum class RecurrenceContext : std::uint8_t {
  Heads,   ///< an all-to-all: each has some heads of the whole sequence
  States,  ///< each runs its own tokens, and takes over the state in front of them
};

/// The storage of gradients before a backward pass has made them.
enum class GradientStorage : std::uint8_t {
  Buffer,    ///< in a buffer that lives as long as the parameters
  Backward,  ///< nowhere: the first backward pass of a step makes them as it frees activations
};

/// Defaults are those of Megatron-LM.
struct Implementation {
  SoftmaxResult softmax = SoftmaxResult::AsIs;
  NormInput norm = NormInput::AsIs;
  NormPart norm_part = NormPart::Own;
  ValueStorage value = ValueStorage::Copy;
  GatedActivation gate = GatedActivation::OneKernel;
  ExpertWeights expert_weights = ExpertWeights::InActivation;
  RouterInput router = RouterInput::AsIs;
  GroupedHeads grouped_heads = GroupedHeads::Shared;
  GradientStorage gradients = GradientStorage::Buffer;
  LossInput loss = LossInput::AsProduced;
  RecurrenceContext recurrence_context = RecurrenceContext::Heads;
  bool operator==(const Implementation&) const = default;
};

}  // namespace plansearch
