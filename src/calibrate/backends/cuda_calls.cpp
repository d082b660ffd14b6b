// SPDX-License-Identifier: Apache-2.0
// Copies, passes over memory and launches.
#include "calibrate/backends/cuda_calls.hpp"

#include <array>

#include "calibrate/backends/cuda_kernels.hpp"

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

}  // namespace plansearch::calibrate
