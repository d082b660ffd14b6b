// SPDX-License-Identifier: Apache-2.0
// Which kinds of operators there are, and how each may be priced. The row of a kind in
// src/workload/operator_traits.cpp says everything else about it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plansearch {

enum class OperatorKind : std::uint8_t {
  Matmul,         ///< activations times parameters (several parameters: one fused launch)
  BatchedMatmul,  ///< activations times activations (unfused attention)
  /// Fused attention kernel; inputs q, k, v in this order. k and v are read with their token
  /// dimension as KeySequence and their KvHead as Head (context parallelism pays for that).
  Attention,
  GroupedMatmul,  ///< one matmul per local expert
  Norm,
  Softmax,
  Elementwise,   ///< activation functions, dropout, residual additions, rotary embedding, bias
  Embedding,     ///< contracts Vocab or Position (a sharded table leaves partial sums)
  CrossEntropy,  ///< loop over (batch, sequence, vocabulary)
  Route,         ///< top-k choice of experts
  Dispatch,      ///< tokens to experts: (batch, sequence, ...) -> (expert, routed, ...)
  Combine,       ///< experts to tokens
  Convolution,
  DepthwiseConvolution,  ///< every channel by itself
  Count                  ///< the number of kinds
};
inline constexpr auto kOperatorKindCount = static_cast<std::size_t>(OperatorKind::Count);

/// One price function each, in src/evaluate/block/operator_time.cpp.
enum class CostClass : std::uint8_t {
  Product,            ///< with one weight
  GroupedProduct,     ///< one launch of a product per group of rows
  ActivationProduct,  ///< of two activations
  FusedAttention,     ///< curves of its own, which count steps as well
  Loss,               ///< passes over logits
  Stream,             ///< passes over memory: inputs once, outputs once
  LookUp,             ///< passes over memory: of its table the rows of the output
};

}  // namespace plansearch
