// SPDX-License-Identifier: Apache-2.0
#include "calibrate/backends/plain_gemm.hpp"

#include <algorithm>
#include <cstddef>

namespace plansearch::calibrate {
namespace {

constexpr int kTransposed = 112;
constexpr int kDepth = 128;  // rows of the second operand that a cache holds

/// An operand, and how far apart its neighbours in a row and in a column are.
struct Operand {
  const float* values;
  std::size_t down;
  std::size_t right;
  [[nodiscard]] float at(int row, int column) const {
    return values[static_cast<std::size_t>(row) * down + static_cast<std::size_t>(column) * right];
  }
};

Operand operand(const float* values, int leading, int transpose) {
  const auto step = static_cast<std::size_t>(leading);
  return transpose == kTransposed ? Operand{values, 1, step} : Operand{values, step, 1};
}

}  // namespace

void plain_sgemm(int /*order*/, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                 const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  const Operand left = operand(a, lda, transpose_a);
  const Operand right = operand(b, ldb, transpose_b);
  for (int row = 0; row < m; ++row) {
    float* result = c + static_cast<std::size_t>(row) * static_cast<std::size_t>(ldc);
    for (int column = 0; column < n; ++column) {
      result[column] = beta == 0.0F ? 0.0F : beta * result[column];
    }
  }
  for (int from = 0; from < k; from += kDepth) {
    const int to = std::min(k, from + kDepth);
    for (int row = 0; row < m; ++row) {
      float* result = c + static_cast<std::size_t>(row) * static_cast<std::size_t>(ldc);
      for (int depth = from; depth < to; ++depth) {
        const float factor = alpha * left.at(row, depth);
        const float* values = right.values + static_cast<std::size_t>(depth) * right.down;
        if (right.right == 1) {
          for (int column = 0; column < n; ++column) result[column] += factor * values[column];
        } else {
          for (int column = 0; column < n; ++column) {
            result[column] += factor * values[static_cast<std::size_t>(column) * right.right];
          }
        }
      }
    }
  }
}

}  // namespace plansearch::calibrate
