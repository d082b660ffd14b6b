// SPDX-License-Identifier: Apache-2.0
#include "calibrate/backends/cuda_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace plansearch::calibrate {
namespace {

/// Of every sign, from a half to one.
std::uint32_t pattern(cudaDataType_t type, std::uint32_t random) {
  constexpr std::uint32_t kHalf32 = 126U << 23U;
  constexpr std::uint32_t kHalf16 = 14U << 10U;
  constexpr std::uint32_t kHalfBrain = 126U << 7U;
  if (type == CUDA_R_16F) return (random & 0x83FF83FFU) | kHalf16 | (kHalf16 << 16U);
  if (type == CUDA_R_16BF) return (random & 0x807F807FU) | kHalfBrain | (kHalfBrain << 16U);
  return (random & 0x807FFFFFU) | kHalf32;
}

}  // namespace

char* DeviceMemory::filled(std::size_t bytes, cudaDataType_t type) {
  if (bytes > size_) {
    static_cast<void>(cuda_.release(start_));
    start_ = nullptr;
    size_ = 0;
    void* memory = nullptr;
    cuda_.check(cuda_.allocate(&memory, bytes), "memory of the device");
    start_ = static_cast<char*>(memory);
    size_ = bytes;
    filled_ = 0;
  }
  if (bytes > filled_ || type != type_) fill(bytes, type);
  return start_;
}

void DeviceMemory::fill(std::size_t bytes, cudaDataType_t type) {
  std::vector<std::uint32_t> block(std::size_t{1} << 20U);
  std::uint64_t state = 88172645463325252ULL;
  for (std::uint32_t& value : block) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    value = pattern(type, static_cast<std::uint32_t>(state >> 32U));
  }
  const std::size_t size = block.size() * sizeof(std::uint32_t);
  for (std::size_t done = 0; done < bytes; done += size) {
    cuda_.check(cuda_.copy(start_ + done, block.data(), std::min(size, bytes - done),
                           cudaMemcpyHostToDevice, nullptr),
                "filling memory");
  }
  cuda_.check(cuda_.wait(nullptr), "filling memory");
  filled_ = bytes;
  type_ = type;
}

char* HostMemory::at_least(std::size_t bytes) {
  if (bytes <= size_) return start_;
  static_cast<void>(cuda_.release_host(start_));
  start_ = nullptr;
  size_ = 0;
  void* memory = nullptr;
  cuda_.check(cuda_.allocate_host(&memory, bytes), "pinned memory");
  start_ = static_cast<char*>(memory);
  size_ = bytes;
  return start_;
}

}  // namespace plansearch::calibrate
