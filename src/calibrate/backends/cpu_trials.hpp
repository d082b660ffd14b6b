// SPDX-License-Identifier: Apache-2.0
// One point of a probe on this processor.
#pragma once

#include <chrono>
#include <memory>

#include "calibrate/backend.hpp"
#include "calibrate/backends/blas.hpp"
#include "calibrate/backends/cpu_buffer.hpp"
#include "calibrate/backends/rotation.hpp"

namespace plansearch::calibrate {

/// What all points have: the library, how operands move on, where they lie.
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

}  // namespace plansearch::calibrate
