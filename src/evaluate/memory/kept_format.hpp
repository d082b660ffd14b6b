// SPDX-License-Identifier: Apache-2.0
// Of what is kept from forward to backward: which tensors may be in a format of few digits, which
// wait in memory of the host.
#pragma once

#include <cstddef>

#include "communication/slices/block_index.hpp"
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

}  // namespace plansearch
