// SPDX-License-Identifier: Apache-2.0
// Quantised weights of a block in the format of their products.
#pragma once

#include "evaluate/block/local_work.hpp"
#include "plansearch/degrees.hpp"

namespace plansearch {

/// Adds them, bytes on one device, to what the block keeps and to its working set.
void add_expanded_weights(const PricingContext& context, const LocalBlock& local, Recompute level,
                          BlockMemory& memory);

}  // namespace plansearch
