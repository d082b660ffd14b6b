// SPDX-License-Identifier: Apache-2.0
// What CUDA says of a device and of itself.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "calibrate/backends/cuda_library.hpp"

namespace plansearch::calibrate {

struct CudaDevice {
  std::string name;
  std::string bus_id;
  int capability = 0;  ///< 90 for 9.0
  int multiprocessors = 1;
  double cache_bytes = 0.0;
  double memory_bytes = 0.0;  ///< of the current device
  double free_bytes = 0.0;    ///< of the current device
};

[[nodiscard]] CudaDevice describe_device(const CudaLibrary& cuda, int device);
/// Versions of driver, CUDA and cuBLASLt, and the number of devices.
[[nodiscard]] std::map<std::string, std::string> library_facts(const CudaLibrary& cuda);
/// Throws Unmeasurable that names the first device that is not like the others.
void require_alike(const CudaLibrary& cuda, const std::vector<int>& devices);

}  // namespace plansearch::calibrate
