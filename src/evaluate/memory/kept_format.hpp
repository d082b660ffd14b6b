// SPDX-License-Identifier: Apache-2.0
// Which tensors may be kept from forward to backward in a format of few digits.
#pragma once

#include "communication/slices/block_index.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

/// Whether nothing but products with weights and activation functions reads a tensor again: norms
/// and attention, which lose more by few digits, do not.
[[nodiscard]] bool only_products_read_again(const Block& block, const BlockIndex& index,
                                            TensorId id);

}  // namespace plansearch
