// SPDX-License-Identifier: Apache-2.0
// Sizes of the tensors that one micro-batch of one block keeps on one device, one by one.
#pragma once

#include <cstddef>
#include <optional>

#include "evaluate/block/local_work.hpp"

namespace plansearch {

/// Bytes, and elements where it says so.
class SavedSizes {
 public:
  SavedSizes(const PricingContext& context, const LocalBlock& local)
      : context_(context), local_(local), block_(local.block) {}

  /// As a message or an input of the block.
  [[nodiscard]] Bytes tile(TensorId id) const;
  /// A tensor is kept as it was produced: what a consumer gathers is gathered again in backward.
  [[nodiscard]] double kept_elements(TensorId id) const;
  [[nodiscard]] Bytes element(TensorId id) const;
  /// Of a tensor that is kept for backward.
  [[nodiscard]] Bytes kept_element(TensorId id) const;
  [[nodiscard]] Bytes size_of(const Saved& saved) const;
  [[nodiscard]] Bytes saved_by(std::size_t index) const;
  /// Of the tokens, those for which a loss has tensors of its own at a time. A single kernel reads
  /// the logits and writes their gradients: it has none.
  [[nodiscard]] double loss_share(std::size_t index) const;
  /// Of a tensor that an operator saves, `share` of whose tokens have it at a time. Logits of a
  /// loss that multiplies by itself are its own tensors, like all in fp32.
  [[nodiscard]] Bytes saved_part(std::size_t index, const Saved& saved, double share) const;
  /// Layout copies and unrotated heads around fused attention.
  [[nodiscard]] Bytes attention_copies(std::size_t index) const;
  /// The two operands of an operator's weight gradient; `only`: its input, where it is that tensor.
  [[nodiscard]] Bytes kept_for_weights(std::size_t index, std::optional<TensorId> only = {}) const;
  /// Elements of an activation that carries hidden features, zero for others.
  [[nodiscard]] double hidden_elements(std::size_t op, TensorId id) const;

 protected:
  const PricingContext& context_;
  const LocalBlock& local_;
  const Block& block_;
};

}  // namespace plansearch
