// SPDX-License-Identifier: Apache-2.0
// Copies, passes over memory and launches.
#include "measure/calibrate/backends/cuda_calls.hpp"

#include <algorithm>
#include <array>

#include "measure/calibrate/backends/cuda_kernels.hpp"

namespace plansearch::calibrate {
namespace {

class CopyCall final : public DeviceCall {
 public:
  CopyCall(const CudaPlace& place, char* to, const char* from, std::size_t bytes,
           std::size_t stride)
      : cuda_(place.cuda),
        to_(to),
        from_(from),
        bytes_(bytes),
        stride_(stride),
        rotation_(place.rotation) {}

  void issue(cudaStream_t stream) override {
    const std::size_t set = rotation_.next() * stride_;
    cuda_.check(cuda_.copy(to_ + set, from_ + set, bytes_, cudaMemcpyDefault, stream), "a copy");
  }

 private:
  const CudaLibrary& cuda_;
  char* to_;
  const char* from_;
  std::size_t bytes_;
  std::size_t stride_;
  Rotation rotation_;
};

class PassCall final : public DeviceCall {
 public:
  PassCall(const CudaPlace& place, CUfunction kernel, const StreamPass& pass, double bytes,
           unsigned blocks)
      : cuda_(place.cuda), kernel_(kernel), blocks_(blocks), rotation_(place.rotation) {
    count_ = static_cast<unsigned long long>(bytes) / sizeof(float) /
             static_cast<unsigned long long>(pass.reads + pass.writes);
    reads_ = static_cast<std::size_t>(pass.reads > 2 ? pass.reads - pass.writes : pass.reads);
    set_ = (reads_ + static_cast<std::size_t>(pass.writes)) * count_ * sizeof(float);
    start_ = place.memory.filled(set_ * rotation_.sets(), CUDA_R_32F);
  }

  void issue(cudaStream_t stream) override {
    const char* read = start_ + rotation_.next() * set_;
    const char* written = read + reads_ * count_ * sizeof(float);
    unsigned long long count = count_;
    unsigned long long stride = count_;
    std::array<void*, 4> arguments{&read, &written, &count, &stride};
    CudaLibrary::check(cuda_.launch(kernel_, blocks_, 1, 1, kCudaThreads, 1, 1, 0, stream,
                                    arguments.data(), nullptr),
                       "a pass over memory");
  }

 private:
  const CudaLibrary& cuda_;
  CUfunction kernel_;
  unsigned blocks_;
  Rotation rotation_;
  unsigned long long count_ = 0;
  std::size_t reads_ = 0;
  std::size_t set_ = 0;
  char* start_ = nullptr;
};

class LaunchCall final : public DeviceCall {
 public:
  LaunchCall(CUfunction kernel, const CudaLibrary& cuda) : cuda_(cuda), kernel_(kernel) {}
  void issue(cudaStream_t stream) override {
    CudaLibrary::check(cuda_.launch(kernel_, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr),
                       "a launch");
  }

 private:
  const CudaLibrary& cuda_;
  CUfunction kernel_;
};

constexpr std::size_t kBlock = std::size_t{1} << 20U;

/// Number of either sign, from a half to one.
std::uint32_t pattern(cudaDataType_t type, std::uint32_t random) {
  constexpr std::uint32_t kHalf32 = 126U << 23U;
  constexpr std::uint32_t kHalf16 = 14U << 10U;
  constexpr std::uint32_t kHalfBrain = 126U << 7U;
  constexpr std::uint32_t kHalf8 = 0x30303030U;  // e4m3
  constexpr auto kE4m3 = static_cast<cudaDataType_t>(28);
  constexpr auto kE2m1 = static_cast<cudaDataType_t>(33);
  if (type == kE4m3) return (random & 0x87878787U) | kHalf8;
  if (type == kE2m1) return random;  // every pattern is a number
  if (type == CUDA_R_16F) return (random & 0x83FF83FFU) | kHalf16 | (kHalf16 << 16U);
  if (type == CUDA_R_16BF) return (random & 0x807F807FU) | kHalfBrain | (kHalfBrain << 16U);
  return (random & 0x807FFFFFU) | kHalf32;
}

}  // namespace

std::unique_ptr<DeviceCall> copy_call(const CudaPlace& place, char* to, const char* from,
                                      std::size_t bytes, std::size_t stride) {
  return std::make_unique<CopyCall>(place, to, from, bytes, stride);
}

std::unique_ptr<DeviceCall> pass_call(const CudaPlace& place, CUfunction kernel,
                                      const StreamPass& pass, double bytes, unsigned blocks) {
  return std::make_unique<PassCall>(place, kernel, pass, bytes, blocks);
}

std::unique_ptr<DeviceCall> launch_call(CUfunction kernel, const CudaLibrary& cuda) {
  return std::make_unique<LaunchCall>(kernel, cuda);
}

char* DeviceMemory::filled(std::size_t bytes, cudaDataType_t type) {
  hold(bytes);
  if (bytes > filled_ || type != type_) fill(bytes, type);
  return start_;
}

char* DeviceMemory::constant(std::size_t bytes, std::uint32_t value) {
  hold(bytes);
  write(bytes, std::vector<std::uint32_t>(kBlock, value));
  return start_;
}

void DeviceMemory::hold(std::size_t bytes) {
  if (bytes <= size_) return;
  static_cast<void>(cuda_.release(start_));
  start_ = nullptr;
  size_ = 0;
  void* memory = nullptr;
  cuda_.check(cuda_.allocate(&memory, bytes), "memory of the device");
  start_ = static_cast<char*>(memory);
  size_ = bytes;
  filled_ = 0;
}

void DeviceMemory::write(std::size_t bytes, const std::vector<std::uint32_t>& block) {
  const std::size_t size = block.size() * sizeof(std::uint32_t);
  for (std::size_t done = 0; done < bytes; done += size) {
    cuda_.check(cuda_.copy(start_ + done, block.data(), std::min(size, bytes - done),
                           cudaMemcpyHostToDevice, nullptr),
                "filling memory");
  }
  cuda_.check(cuda_.wait(nullptr), "filling memory");
}

void DeviceMemory::fill(std::size_t bytes, cudaDataType_t type) {
  std::vector<std::uint32_t> block(kBlock);
  std::uint64_t state = 88172645463325252ULL;
  for (std::uint32_t& value : block) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    value = pattern(type, static_cast<std::uint32_t>(state >> 32U));
  }
  write(bytes, block);
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
