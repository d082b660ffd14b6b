// SPDX-License-Identifier: Apache-2.0
// Loops that are measured on a processor: matrix products without a CBLAS library, passes over
// memory. Compiled for speed whatever the build is for.
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

}  // namespace plansearch::calibrate
