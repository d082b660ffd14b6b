// SPDX-License-Identifier: Apache-2.0
// Loops that are measured on a processor: matrix products without a CBLAS library, passes over
// memory, the soft-max of attention. Compiled for speed whatever the build is for.
#pragma once

#include <cstddef>
#include <string_view>

namespace plansearch::calibrate {

/// As cblas_sgemm, row-major.
void plain_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                 const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);

/// `read` holds as many arrays of `count` floats as the pass reads and does not write, `written`
/// those that it writes, one behind the other.
using MemoryPass = void (*)(const float* read, float* written, std::size_t count,
                            std::size_t stride);

/// Null for an unknown name. The stride lies between the starts of two arrays.
[[nodiscard]] MemoryPass memory_pass(std::string_view name);

/// Rows of scores become weights that add up to one. Row i sees the first `seen` + i + 1 columns,
/// all of them where that is more; what it does not see has no weight.
void softmax_rows(float* scores, int rows, int columns, int seen);

struct SlopeShape {
  int rows;
  int columns;
  int size;
};
/// Gradients of weights become those of scores: weight (change - context . slope of the row).
void softmax_slopes(float* change, const float* weight, const float* slope, const float* context,
                    const SlopeShape& shape);

}  // namespace plansearch::calibrate
