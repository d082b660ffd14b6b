// SPDX-License-Identifier: Apache-2.0
// The tensors that one micro-batch of one block keeps on one device, one by one: sizes, formats,
// and whether they wait on the host.
#pragma once

#include <cstddef>
#include <optional>

#include "communication/slices/block_index.hpp"
#include "evaluate/block/local_work.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

/// Whether nothing but products with weights and activation functions reads a tensor again: norms
/// and attention, which lose more by few digits, do not.
[[nodiscard]] bool only_products_read_again(const Block& block, const BlockIndex& index,
                                            TensorId id);

/// Whether what an operator of a block saves waits on the host. `saved`: one of its tensors; null:
/// copies around attention. Modules leave what they keep and what they read.
[[nodiscard]] bool waits_on_host(const HostTensors& host, const Block& block, std::size_t op,
                                 const Saved* saved);

/// Bytes, and elements where it says so.
class SavedSizes {
 public:
  SavedSizes(const PricingContext& context, const LocalBlock& local);

  /// As a message or an input of the block.
  [[nodiscard]] Bytes tile(TensorId id) const;
  /// A tensor is kept as it was produced: what a consumer gathers is gathered again in backward.
  [[nodiscard]] double kept_elements(TensorId id) const;
  [[nodiscard]] Bytes element(TensorId id) const;
  /// The size of an element of a tensor that is kept for backward.
  [[nodiscard]] Bytes kept_element(TensorId id) const;
  [[nodiscard]] Bytes size_of(const Saved& saved) const;
  [[nodiscard]] Bytes saved_by(std::size_t index) const;
  /// The share of the tokens for which a loss has its own tensors at a time. A single kernel reads
  /// the logits and writes their gradients: it has none.
  [[nodiscard]] double loss_share(std::size_t index) const;
  /// Whether one kernel writes the gradients of all logits in their place.
  [[nodiscard]] bool rewrites_logits(std::size_t index) const;
  /// Gradients of the logits beside those that it writes in the place of an fp32 copy of them.
  [[nodiscard]] Bytes gradients_of_copy(std::size_t index) const;
  /// The bytes of a tensor that an operator saves, `share` of whose tokens have it. Logits of a
  /// loss that multiplies by itself are its own tensors, like all in fp32.
  [[nodiscard]] Bytes saved_part(std::size_t index, const Saved& saved, double share) const;
  /// Bytes that an operator keeps beside tensors: layout copies and unrotated heads around fused attention,
  /// a product's own copy of an input that others keep.
  [[nodiscard]] Bytes copies(std::size_t index) const;
  /// The two operands of an operator's weight gradient; `only`: its input, where it is that tensor.
  [[nodiscard]] Bytes kept_for_weights(std::size_t index, std::optional<TensorId> only = {}) const;
  /// Elements of an activation that carries hidden features, zero for others.
  [[nodiscard]] double hidden_elements(std::size_t op, TensorId id) const;

 private:
  /// Whether products that keep inputs of their own alone read a tensor again.
  [[nodiscard]] bool kept_by_products_alone(TensorId id) const;

 protected:
  const PricingContext& context_;
  const LocalBlock& local_;
  const Block& block_;

 private:
  std::vector<bool> keeps_own_input_;  ///< in the format of products, by operator; empty: none does
};

/// Adds them, bytes on one device, to what the block keeps and to its working set.
void add_expanded_weights(const PricingContext& context, const LocalBlock& local, Recompute level,
                          BlockMemory& memory);

}  // namespace plansearch
