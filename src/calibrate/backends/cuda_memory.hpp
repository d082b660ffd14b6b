// SPDX-License-Identifier: Apache-2.0
// Memory of a CUDA device and of its host, kept from point to point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibrate/backends/cuda_library.hpp"

namespace plansearch::calibrate {

/// Grown where a point needs more; filled with numbers of every sign from a half to one: products
/// of zeros run faster than those of a network.
class DeviceMemory {
 public:
  explicit DeviceMemory(const CudaLibrary& cuda) : cuda_(cuda) {}
  ~DeviceMemory() { static_cast<void>(cuda_.release(start_)); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  char* filled(std::size_t bytes, cudaDataType_t type);
  /// The same four bytes everywhere.
  char* constant(std::size_t bytes, std::uint32_t value);

 private:
  void hold(std::size_t bytes);
  void write(std::size_t bytes, const std::vector<std::uint32_t>& block);
  void fill(std::size_t bytes, cudaDataType_t type);

  const CudaLibrary& cuda_;
  char* start_ = nullptr;
  std::size_t size_ = 0;
  std::size_t filled_ = 0;
  cudaDataType_t type_ = CUDA_R_32F;
};

/// Pinned.
class HostMemory {
 public:
  explicit HostMemory(const CudaLibrary& cuda) : cuda_(cuda) {}
  ~HostMemory() { static_cast<void>(cuda_.release_host(start_)); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  char* at_least(std::size_t bytes);

 private:
  const CudaLibrary& cuda_;
  char* start_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace plansearch::calibrate
