// SPDX-License-Identifier: Apache-2.0
// Saved tensors of a block as one device holds them.
#pragma once

#include "plansearch/evaluate/block_profile.hpp"
#include "plansearch/plan/placement.hpp"

namespace plansearch {

/// All but `cached`, which communication decides.
[[nodiscard]] BlockMemory block_memory(const ClassContext& context, const Block& block,
                                       const BlockPlacement& placement);

}  // namespace plansearch
