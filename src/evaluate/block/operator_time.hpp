// SPDX-License-Identifier: Apache-2.0
// Kernel time of one operator on one device, forward and backward.
#pragma once

#include <vector>

#include "communication/slices/local_sizes.hpp"
#include "evaluate/block/phase_message.hpp"

namespace plansearch {

struct OperatorTime {
  Seconds forward;
  Seconds backward;         ///< both gradients
  Seconds weight_gradient;  ///< the part of `backward` that forms gradients of parameters
  int forward_kernels = 0;
  int backward_kernels = 0;
  int weight_kernels = 0;  ///< of the backward kernels
};

/// Appends the times of every operator of the block, in order. A fused launch is charged to its
/// first operator. `kernels`: sizes of the kernels of operators that run piece by piece.
void append_operator_times(const PricingContext& context, const Block& block,
                           const LocalSizes& sizes, const LocalSizes& kernels,
                           std::vector<OperatorTime>& times);

/// The time of one operator; of a fused launch all of it at the first one.
[[nodiscard]] OperatorTime operator_time(const PricingContext& context, const Block& block,
                                         const LocalSizes& sizes, std::size_t op);

}  // namespace plansearch
