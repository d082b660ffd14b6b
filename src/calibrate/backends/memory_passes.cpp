// SPDX-License-Identifier: Apache-2.0
#include "calibrate/backends/memory_passes.hpp"

#include <array>
#include <cmath>
#include <cstring>

namespace plansearch::calibrate {
namespace {

void copy(const float* read, float* written, std::size_t count, std::size_t /*stride*/) {
  std::memcpy(written, read, count * sizeof(float));
}

void elementwise(const float* read, float* written, std::size_t count, std::size_t stride) {
  const float* other = read + stride;
  for (std::size_t i = 0; i < count; ++i) written[i] = read[i] * other[i] + read[i];
}

void norm(const float* read, float* written, std::size_t count, std::size_t /*stride*/) {
  constexpr std::size_t kRow = 1024;
  for (std::size_t row = 0; row + kRow <= count; row += kRow) {
    std::array<float, 8> sums{};
    for (std::size_t i = 0; i < kRow; i += sums.size()) {
      for (std::size_t lane = 0; lane < sums.size(); ++lane) {
        const float value = read[row + i + lane];
        sums[lane] += value * value;
      }
    }
    float total = 1e-5F * kRow;
    for (const float sum : sums) total += sum;
    const float scale = 1.0F / std::sqrt(total / kRow);
    for (std::size_t i = 0; i < kRow; ++i) written[row + i] = read[row + i] * scale;
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

MemoryPass memory_pass(std::string_view name) {
  for (const PassRow& row : kPasses) {
    if (row.name == name) return row.run;
  }
  return nullptr;
}

}  // namespace plansearch::calibrate
