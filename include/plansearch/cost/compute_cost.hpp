// SPDX-License-Identifier: Apache-2.0
// How long one kernel takes on one accelerator.
#pragma once

#include "plansearch/base/data_type.hpp"
#include "plansearch/base/quantity.hpp"
#include "plansearch/cost/kernel_shape.hpp"
#include "plansearch/hardware/cluster.hpp"

namespace plansearch {

enum class Pass { Forward, Backward };

/// Throws InputError when the accelerator has no rate for `type`: the caller checks once, up front
/// (see `require_data_type`).
[[nodiscard]] Seconds matmul_time(const Accelerator& accelerator, DataType type,
                                  const MatmulShape& shape);
/// Fused attention. Backward is the whole of it: both gradients of the two products.
[[nodiscard]] Seconds attention_time(const Accelerator& accelerator, DataType type,
                                     const AttentionShape& shape, Pass pass);
/// A memory-bound kernel (or several in a row) that moves `traffic` bytes in total.
[[nodiscard]] Seconds stream_time(const Accelerator& accelerator, Bytes traffic, int kernels);

/// Refuses formats the accelerator cannot run, naming those it can.
void require_data_type(const Accelerator& accelerator, DataType type);

}  // namespace plansearch
