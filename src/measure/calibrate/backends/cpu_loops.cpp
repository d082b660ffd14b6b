// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/backends/cpu_loops.hpp"

#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

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

constexpr std::size_t kRow = 1024;

/// Past the caches where the processor can: what is written is not read first.
void put(float* written, const float* values, std::size_t count) {
#ifdef __SSE__
  constexpr std::size_t kLanes = 4;
  if (reinterpret_cast<std::uintptr_t>(written) % (kLanes * sizeof(float)) == 0 &&
      count % kLanes == 0) {
    for (std::size_t i = 0; i < count; i += kLanes) {
      _mm_stream_ps(written + i, _mm_loadu_ps(values + i));
    }
    return;
  }
#endif
  std::memcpy(written, values, count * sizeof(float));
}

void copy(const float* read, float* written, std::size_t count, std::size_t /*stride*/) {
  for (std::size_t row = 0; row < count; row += kRow) {
    put(written + row, read + row, std::min(kRow, count - row));
  }
}

void elementwise(const float* read, float* written, std::size_t count, std::size_t stride) {
  std::array<float, kRow> values;
  for (std::size_t row = 0; row < count; row += kRow) {
    const std::size_t length = std::min(kRow, count - row);
    const float* one = read + row;
    const float* other = one + stride;
    for (std::size_t i = 0; i < length; ++i) values[i] = one[i] * other[i] + one[i];
    put(written + row, values.data(), length);
  }
}

/// Whole rows only.
void norm(const float* read, float* written, std::size_t count, std::size_t /*stride*/) {
  std::array<float, kRow> values;
  for (std::size_t row = 0; row + kRow <= count; row += kRow) {
    std::array<float, 32> sums{};
    for (std::size_t i = 0; i < kRow; i += sums.size()) {
      for (std::size_t lane = 0; lane < sums.size(); ++lane) {
        const float value = read[row + i + lane];
        sums[lane] += value * value;
      }
    }
    float total = 1e-5F * kRow;
    for (const float sum : sums) total += sum;
    const float scale = 1.0F / std::sqrt(total / kRow);
    for (std::size_t i = 0; i < kRow; ++i) values[i] = read[row + i] * scale;
    put(written + row, values.data(), kRow);
  }
}

/// Adam: the gradient is read; weight and two moments are updated where they are.
void optimizer(const float* read, float* written, std::size_t count, std::size_t stride) {
  float* weight = written;
  float* first = written + stride;
  float* second = written + 2 * stride;
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = read[i];
    first[i] = 0.9F * first[i] + 0.1F * gradient;
    second[i] = 0.999F * std::fabs(second[i]) + 0.001F * gradient * gradient;
    weight[i] -= 1e-4F * first[i] / (std::sqrt(second[i]) + 1e-8F);
  }
}

struct PassRow {
  std::string_view name;
  MemoryPass run;
};
constexpr std::array kPasses{PassRow{"copy", copy}, PassRow{"elementwise", elementwise},
                             PassRow{"norm", norm}, PassRow{"optimizer", optimizer}};

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

MemoryPass memory_pass(std::string_view name) {
  for (const PassRow& row : kPasses) {
    if (row.name == name) return row.run;
  }
  return nullptr;
}

}  // namespace plansearch::calibrate
