// SPDX-License-Identifier: Apache-2.0
// Copies, passes over memory and launches.
#include "measure/calibrate/backends/cuda_calls.hpp"

#include <algorithm>
#include <array>

#include "measure/calibrate/backends/cuda_kernels.hpp"

namespace plansearch::calibrate {
namespace {

/// A call that a function puts on a stream.
template <typename Issue>
class CallOf final : public DeviceCall {
 public:
  explicit CallOf(Issue issue) : issue_(std::move(issue)) {}
  void issue(cudaStream_t stream) override { issue_(stream); }

 private:
  Issue issue_;
};

template <typename Issue>
std::unique_ptr<DeviceCall> call_of(Issue issue) {
  return std::make_unique<CallOf<Issue>>(std::move(issue));
}

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
  return call_of([&cuda = place.cuda, rotation = place.rotation, to, from, bytes,
                  stride](cudaStream_t stream) mutable {
    const std::size_t set = rotation.next() * stride;
    cuda.check(cuda.copy(to + set, from + set, bytes, cudaMemcpyDefault, stream), "a copy");
  });
}

std::unique_ptr<DeviceCall> pass_call(const CudaPlace& place, CUfunction kernel,
                                      const StreamPass& pass, double bytes, unsigned blocks) {
  unsigned long long count = static_cast<unsigned long long>(bytes) / sizeof(float) /
                             static_cast<unsigned long long>(pass.reads + pass.writes);
  const std::size_t only_read = static_cast<std::size_t>(pass.only_read());
  const std::size_t array = count * sizeof(float);
  const std::size_t set = (only_read + static_cast<std::size_t>(pass.writes)) * array;
  char* start = place.memory.filled(set * place.rotation.sets(), CUDA_R_32F);
  return call_of([=, &cuda = place.cuda, rotation = place.rotation](cudaStream_t stream) mutable {
    const char* read = start + rotation.next() * set;
    const char* written = read + only_read * array;
    std::array<void*, 4> arguments{&read, &written, &count, &count};
    CudaLibrary::check(
        cuda.launch(kernel, blocks, 1, 1, kCudaThreads, 1, 1, 0, stream, arguments.data(), nullptr),
        "a pass over memory");
  });
}

std::unique_ptr<DeviceCall> launch_call(CUfunction kernel, const CudaLibrary& cuda) {
  return call_of([kernel, &cuda](cudaStream_t stream) {
    CudaLibrary::check(cuda.launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr),
                       "a launch");
  });
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
