// SPDX-License-Identifier: Apache-2.0
// One point of a probe on this processor.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "calibrate/backend.hpp"
#include "calibrate/backends/blas.hpp"
#include "calibrate/backends/rotation.hpp"

namespace plansearch::calibrate {
/// Context of every point: the library, how operands move on, where they lie.
struct CpuPlace {
  const Blas& blas;
  int threads;
  Rotation rotation;
  CpuBuffer& read;
  CpuBuffer& written;
};

[[nodiscard]] std::unique_ptr<Trial> cpu_product(const CpuPlace& place, const Point& point);
[[nodiscard]] std::unique_ptr<Trial> cpu_pass(const CpuPlace& place, const Point& point);

[[nodiscard]] inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Numbers of every sign between -1 and 1: products of zeros run faster than those of a network.
class CpuBuffer {
 public:
  float* at_least(std::size_t count) {
    std::size_t filled = values_.size();
    if (filled < count) values_.resize(count);
    for (; filled < values_.size(); ++filled) {
      state_ ^= state_ << 13U;
      state_ ^= state_ >> 7U;
      state_ ^= state_ << 17U;
      values_[filled] = static_cast<float>(static_cast<std::int32_t>(state_ >> 32U)) / 2147483648.F;
    }
    return values_.data();
  }

 private:
  std::vector<float> values_;
  std::uint64_t state_ = 88172645463325252ULL;
};

}  // namespace plansearch::calibrate
