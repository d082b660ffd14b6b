// SPDX-License-Identifier: Apache-2.0
// Orders that repeat one pattern of slots on a V of two chunks.
#pragma once

#include <array>

#include "schedule/order/compute_order.hpp"

namespace plansearch {

/// Slots of the first micro-batch on one device: forward of the first and of the second chunk,
/// backward of the second and of the first. Six slots later the next one follows.
using VSlots = std::array<int, 4>;

/// Every device runs its pieces in the order of their slots; weight gradients, oldest first, take
/// the slots in between.
[[nodiscard]] ComputeOrder v_pattern_order(const PipelineShape& shape,
                                           VSlots (*slots)(int stages, int device));

}  // namespace plansearch
