// SPDX-License-Identifier: Apache-2.0
// How long one kernel takes on one accelerator.
#pragma once

#include <cstdint>

#include "cost/kernels/kernel_shape.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/concurrency.hpp"
#include "plansearch/data_type.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

enum class Pass { Forward, Backward };

/// A chip that trains is hot and runs at its sustained clock; a benchmark of one kernel does not
/// last long enough to lower the clock.
enum class Clock { Sustained, Burst };

/// Whether the rows of operands and result are whole vectors of what kernels load and store.
enum class Rows : std::uint8_t { Aligned, Unaligned };

/// Rows of a product of `type` that are `n` and `k` elements long. Tokens make no rows.
[[nodiscard]] Rows rows_of(DataType type, const MatmulShape& shape);

/// Kernels of one input format: their speed, the peak they are a share of, bytes of an element.
struct MatmulKernel {
  const MatmulCurve& curve;
  FlopRate peak;
  Bytes element;
};

/// The kernels of `type`; InputError when the accelerator has none (see `require_data_type`).
[[nodiscard]] MatmulKernel matmul_kernel(const Accelerator& accelerator, DataType type);

/// Throws InputError when the accelerator has no rate for `type`: the caller checks once, up front
/// (see `require_data_type`).
[[nodiscard]] Seconds matmul_time(const Accelerator& accelerator, DataType type,
                                  const MatmulShape& shape, Clock clock = Clock::Sustained,
                                  Rows rows = Rows::Aligned);
/// The same for kernels that belong to no data type of their own (fp8 with block scales).
[[nodiscard]] Seconds matmul_time(const Accelerator& accelerator, const MatmulKernel& kernel,
                                  const MatmulShape& shape, Clock clock, Rows rows = Rows::Aligned);
/// Fused attention. Backward is the whole of it: both gradients of the two products.
[[nodiscard]] Seconds attention_time(const Accelerator& accelerator, DataType type,
                                     const AttentionShape& shape, Pass pass);
/// The same for a given implementation.
[[nodiscard]] Seconds attention_time(const Accelerator& accelerator, const AttentionCurve& curve,
                                     DataType type, const AttentionShape& shape, Pass pass);
/// A memory-bound kernel (or several in a row) that moves `traffic` bytes in total.
[[nodiscard]] Seconds stream_time(const Accelerator& accelerator, Bytes traffic, int kernels);

/// Refuses formats the accelerator cannot run, naming those it can.
void require_data_type(const Accelerator& accelerator, DataType type);

/// Work in front of one product. A call counts once for the host, however many kernels it launches;
/// bytes are per element of the weight.
struct WeightExpansion {
  int calls = 0;
  Bytes moved;  ///< read and written by all kernels, the kept format and the result included
  Bytes peak;   ///< of their results, while they run
  bool kept_for_backward = false;  ///< backward reads the result again; else it is made anew
};

/// `product`: the format in which the weight is multiplied.
[[nodiscard]] WeightExpansion weight_expansion(DataType kept, DataType product);

/// The change of another scaling of fp8 inputs to a product that was fitted with one scale a
/// tensor, from its maximum: a 16-bit input is read for it (2 bytes an element), read again and
/// written in both layouts.
struct Scaling {
  double bytes = 0.0;   ///< moved more per input element
  bool by_row = false;  ///< kernels with a scale a row
};

/// Maxima of earlier steps save the first of these passes. Scales of rows need a transposed 16-bit
/// copy for the second layout, written and read, and no pass for a maximum (pytorch/ao@05980129,
/// torchao/testing/training/roofline_utils.py).
[[nodiscard]] Scaling scaling_of(std::optional<Fp8Recipe> recipe);

/// Rates by set of activities that run at once; alone, each has the rate 1.
[[nodiscard]] ConcurrencyRates concurrency_rates(const ConcurrencyCoefficients& shared);

}  // namespace plansearch
