// SPDX-License-Identifier: Apache-2.0
// Saved tensors of a block as one device holds them.
#pragma once

#include "communication/placement.hpp"
#include "evaluate/block_profile.hpp"

namespace plansearch {

/// All but `cached`, which communication decides.
[[nodiscard]] BlockMemory block_memory(const ClassContext& context, const Block& block,
                                       const BlockPlacement& placement);

}  // namespace plansearch
