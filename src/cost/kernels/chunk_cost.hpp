// SPDX-License-Identifier: Apache-2.0
// Kernels that take the tokens of a sequence in order, chunk by chunk: recurrences and the causal
// convolutions in front of them.
#pragma once

#include <span>
#include <string_view>

#include "cost/kernels/compute_cost.hpp"
#include "plansearch/named_kernels.hpp"

namespace plansearch {

/// What one device computes of a recurrence.
struct ChunkShape {
  double batch = 1.0;
  double heads = 1.0;      ///< of values
  double key_heads = 1.0;  ///< of keys
  double tokens = 1.0;     ///< of one sequence on the device
  double key_size = 1.0;
  double value_size = 1.0;
  Bytes moved;           ///< read and written
  bool launched = true;  ///< false: part of the launch of another operator
};

/// The kernel that runs operators of that name: of the first library that has one, else the first
/// one. Null: the table has none.
[[nodiscard]] const NamedKernel* find_kernel(std::span<const NamedKernel> kernels,
                                             std::span<const std::string> libraries,
                                             std::string_view name);

/// FLOPs of the chunk form.
[[nodiscard]] Flops chunk_flops(const NamedKernel& kernel, const ChunkShape& shape);

[[nodiscard]] Seconds chunk_time(const Accelerator& accelerator, const NamedKernel& kernel,
                                 const ChunkShape& shape, Pass pass);

}  // namespace plansearch
