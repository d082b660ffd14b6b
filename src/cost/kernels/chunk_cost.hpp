// SPDX-License-Identifier: Apache-2.0
// Kernels that take the tokens of a sequence in order, chunk by chunk: recurrences and the causal
// convolutions in front of them.
#pragma once

#include <span>
#include <string_view>

#include "cost/kernels/compute_cost.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/named_kernels.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

/// The part of a recurrence that one device computes.
struct ChunkShape {
  double batch = 1.0;
  double heads = 1.0;      ///< of values
  double key_heads = 1.0;  ///< of keys
  double tokens = 1.0;     ///< of one sequence on the device
  double key_size = 1.0;
  double value_size = 1.0;
  Bytes moved{};         ///< read and written
  bool launched = true;  ///< false: part of the launch of another operator
};

/// The kernel that runs operators of that name: of the first library that has one, else the first
/// one. Null: the table has none.
[[nodiscard]] const NamedKernel* find_kernel(std::span<const NamedKernel> kernels,
                                             std::span<const std::string> libraries,
                                             std::string_view name);

/// The same of an operator, which the framework has been asked for.
[[nodiscard]] const NamedKernel& kernel_of(const Framework& framework, const Operator& op);

/// Time of attention to chosen keys over that of attention to as many in a row: they are gathered
/// one by one, and a query starts as if it read a few more.
[[nodiscard]] double gathering(const Framework& framework, const Operator& op);

/// Sizes of an operator that takes its tokens in order: features of the key stand in front of those
/// of the value.
[[nodiscard]] ChunkShape chunk_shape(const Network& network, const Operator& op,
                                     LocalExtents extents);

/// FLOPs of the chunk form.
[[nodiscard]] Flops chunk_flops(const NamedKernel& kernel, const ChunkShape& shape);

[[nodiscard]] Seconds chunk_time(const Accelerator& accelerator, const NamedKernel& kernel,
                                 const ChunkShape& shape, Pass pass);

}  // namespace plansearch
