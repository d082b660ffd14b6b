// SPDX-License-Identifier: Apache-2.0
// Copies between a device and memory of its host that passes of a block run beside.
#pragma once

#include "evaluate/block/block_profile.hpp"

namespace plansearch {

/// Bytes of one copy of one block, as its layers keep and its policies fetch them.
[[nodiscard]] HostCopies host_copies(const PricingContext& context, Bytes offloaded,
                                     const FetchedBytes& fetched);

/// Adds to the passes what they wait for their copies.
void wait_for_copies(const HostCopies& copies, BlockTimes& times);

}  // namespace plansearch
