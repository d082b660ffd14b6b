// SPDX-License-Identifier: Apache-2.0
// Calls of a CUDA device and their times, alone or beside something else, and its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "measure/calibrate/backend.hpp"
#include "measure/calibrate/backends/cuda_library.hpp"
#include "measure/calibrate/probe.hpp"
#include "measure/calibrate/processes/processes.hpp"

namespace plansearch::calibrate {

/// Memory of a device, grown where a point needs more; filled with numbers of every sign from a
/// half to one: products of zeros run faster than those of a network.
class DeviceMemory : NotCopied {
 public:
  explicit DeviceMemory(const CudaLibrary& cuda) : cuda_(cuda) {}
  ~DeviceMemory() override { static_cast<void>(cuda_.release(start_)); }

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

/// Pinned memory of the host.
class HostMemory : NotCopied {
 public:
  explicit HostMemory(const CudaLibrary& cuda) : cuda_(cuda) {}
  ~HostMemory() override { static_cast<void>(cuda_.release_host(start_)); }

  char* at_least(std::size_t bytes);

 private:
  const CudaLibrary& cuda_;
  char* start_ = nullptr;
  std::size_t size_ = 0;
};

/// Operands start at multiples of so many bytes.
inline constexpr std::size_t kOperandAlignment = 256;

/// Put on a stream as often as is wanted.
class DeviceCall : public NotCopied {
 public:
  virtual void issue(cudaStream_t stream) = 0;
  /// Waits for what runs on other streams than that.
  virtual void finish() {}
};

/// Context of every call: the library, memory of their own, and how operands move on.
struct CudaPlace {
  const CudaLibrary& cuda;
  DeviceMemory& memory;
  Rotation rotation;
};

/// Formats of products of a compute capability such as 80.
[[nodiscard]] std::vector<std::string> cuda_formats(int capability);
/// `scales` is for formats whose operands have factors of their own.
[[nodiscard]] std::unique_ptr<DeviceCall> product_call(const CudaPlace& place, DeviceMemory& scales,
                                                       cublasLtHandle_t blas, const Point& point);
/// `stride` lies between the starts of two sets.
[[nodiscard]] std::unique_ptr<DeviceCall> copy_call(const CudaPlace& place, char* to,
                                                    const char* from, std::size_t bytes,
                                                    std::size_t stride);
[[nodiscard]] std::unique_ptr<DeviceCall> pass_call(const CudaPlace& place, CUfunction kernel,
                                                    const StreamPass& pass, double bytes,
                                                    unsigned blocks);
/// A kernel that does nothing.
[[nodiscard]] std::unique_ptr<DeviceCall> launch_call(CUfunction kernel, const CudaLibrary& cuda);

/// Between two events on one stream.
[[nodiscard]] std::unique_ptr<Trial> timed(const CudaLibrary& cuda,
                                           std::unique_ptr<DeviceCall> call);
/// Captured many times into one graph.
[[nodiscard]] std::unique_ptr<Trial> captured(const CudaLibrary& cuda,
                                              std::unique_ptr<DeviceCall> call);
/// `call` between two events while `beside` runs on another stream all along. Several processes
/// `agree` on one number of a kind: the largest.
[[nodiscard]] std::unique_ptr<Trial> overlapped(const CudaLibrary& cuda,
                                                std::unique_ptr<DeviceCall> call,
                                                std::unique_ptr<DeviceCall> beside,
                                                std::function<double(double)> agree);

/// Messages among GPUs by NCCL: all of a node in one process, or one GPU a process over many nodes.
class Messages : public NotCopied {
 public:
  [[nodiscard]] virtual std::string version() const = 0;
  /// Ranks of all processes.
  [[nodiscard]] virtual int ranks() const = 0;
  [[nodiscard]] virtual std::unique_ptr<DeviceCall> prepare(const Point& point) = 0;
};

/// Messages of the devices of this process; `processes` is null where there is one. Throws
/// Unmeasurable with what is missing: the header when this was built, the library, a second GPU.
[[nodiscard]] std::unique_ptr<Messages> make_messages(const CudaLibrary& cuda,
                                                      const std::vector<int>& devices,
                                                      Processes* processes);

/// Fused attention by cuDNN's graph interface: the patterns that it takes for flash attention.
class FusedAttention : public NotCopied {
 public:
  [[nodiscard]] virtual std::string version() const = 0;
  /// Throws Unmeasurable for formats that are not of 16 bits and where cuDNN has no kernel.
  [[nodiscard]] virtual std::unique_ptr<DeviceCall> prepare(const CudaPlace& place,
                                                            const Point& point) = 0;
};

/// Throws Unmeasurable with what is missing: the header when this was built, or the library.
[[nodiscard]] std::unique_ptr<FusedAttention> make_attention();

/// Builds the graph of a point without a device; throws Unmeasurable where cuDNN takes it for
/// wrong.
void check_attention_graph(const Point& point);

}  // namespace plansearch::calibrate
