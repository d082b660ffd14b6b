// SPDX-License-Identifier: Apache-2.0
// One point of a probe on a CUDA device, timed by events around a block of calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calibrate/backend.hpp"
#include "calibrate/backends/cuda_library.hpp"
#include "calibrate/backends/cuda_memory.hpp"
#include "calibrate/backends/rotation.hpp"
#include "calibrate/probes/probe_rows.hpp"

namespace plansearch::calibrate {

/// Formats of products of a compute capability such as 80.
[[nodiscard]] std::vector<std::string> cuda_formats(int capability);

/// What all points have: the library, its memory, and how operands move on.
struct CudaPlace {
  const CudaLibrary& cuda;
  DeviceMemory& memory;
  Rotation rotation;
};

[[nodiscard]] std::unique_ptr<Trial> product_trial(const CudaPlace& place, cublasLtHandle_t blas,
                                                   const Point& point);
/// `stride` lies between the starts of two sets.
[[nodiscard]] std::unique_ptr<Trial> copy_trial(const CudaPlace& place, char* to, const char* from,
                                                std::size_t bytes, std::size_t stride);
[[nodiscard]] std::unique_ptr<Trial> pass_trial(const CudaPlace& place, CUfunction kernel,
                                                const StreamPass& pass, double bytes,
                                                unsigned blocks);

}  // namespace plansearch::calibrate
