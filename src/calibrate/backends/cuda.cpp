// SPDX-License-Identifier: Apache-2.0
// The first GPU of this machine. Times are those of events around a block of calls.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "calibrate/backends/backend_rows.hpp"
#include "calibrate/backends/cuda_kernels.hpp"
#include "calibrate/backends/cuda_library.hpp"
#include "calibrate/backends/rotation.hpp"
#include "calibrate/probes/probe_rows.hpp"

namespace plansearch::calibrate {
namespace {

constexpr std::size_t kWorkspace = std::size_t{64} << 20U;

/// A format of products: type of the operands, of the sums, and what its elements look like.
struct FormatRow {
  std::string_view name;
  cudaDataType_t type;
  cublasComputeType_t compute;
  int least_capability;
};
constexpr std::array kFormats{FormatRow{"bf16", CUDA_R_16BF, CUBLAS_COMPUTE_32F, 80},
                              FormatRow{"fp16", CUDA_R_16F, CUBLAS_COMPUTE_32F, 70},
                              FormatRow{"tf32", CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 80},
                              FormatRow{"fp32", CUDA_R_32F, CUBLAS_COMPUTE_32F, 0}};

const FormatRow& format_named(const std::string& name) {
  for (const FormatRow& row : kFormats) {
    if (row.name == name) return row;
  }
  throw Unmeasurable{fmt::format("no products of {} here", name)};
}

/// Of every sign, from a half to one: products of zeros run faster than those of a network.
std::uint32_t pattern(cudaDataType_t type, std::uint32_t random) {
  constexpr std::uint32_t kHalf32 = 126U << 23U;
  constexpr std::uint32_t kHalf16 = 14U << 10U;
  constexpr std::uint32_t kHalfBrain = 126U << 7U;
  if (type == CUDA_R_16F) return (random & 0x83FF83FFU) | kHalf16 | (kHalf16 << 16U);
  if (type == CUDA_R_16BF) return (random & 0x807F807FU) | kHalfBrain | (kHalfBrain << 16U);
  return (random & 0x807FFFFFU) | kHalf32;
}

/// Memory of the device, kept from point to point and grown where a point needs more.
class DeviceMemory {
 public:
  explicit DeviceMemory(const CudaLibrary& cuda) : cuda_(cuda) {}
  ~DeviceMemory() { static_cast<void>(cuda_.release(start_)); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  char* filled(std::size_t bytes, cudaDataType_t type) {
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

 private:
  void fill(std::size_t bytes, cudaDataType_t type) {
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

  const CudaLibrary& cuda_;
  char* start_ = nullptr;
  std::size_t size_ = 0;
  std::size_t filled_ = 0;
  cudaDataType_t type_ = CUDA_R_32F;
};

/// Calls between two events.
class TimedTrial : public Trial {
 public:
  explicit TimedTrial(const CudaLibrary& cuda) : cuda_(cuda) {
    cuda_.check(cuda_.event_create(&begin_), "an event");
    cuda_.check(cuda_.event_create(&end_), "an event");
  }

  double run(int calls) override {
    constexpr double kMilli = 1e-3;
    cuda_.check(cuda_.event_record(begin_, nullptr), "an event");
    for (int call = 0; call < calls; ++call) call_once();
    cuda_.check(cuda_.event_record(end_, nullptr), "an event");
    cuda_.check(cuda_.event_wait(end_), "a call");
    float milliseconds = 0.0F;
    cuda_.check(cuda_.event_elapsed(&milliseconds, begin_, end_), "an event");
    return kMilli * static_cast<double>(milliseconds);
  }

 protected:
  virtual void call_once() = 0;
  const CudaLibrary& cuda_;

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

/// Row-major C = A B is column-major C' = B' A': the second operand comes first.
class MatmulTrial final : public TimedTrial {
 public:
  MatmulTrial(const CudaLibrary& cuda, cublasLtHandle_t blas, const Point& point, Rotation rotation,
              DeviceMemory& memory)
      : TimedTrial(cuda), blas_(blas), rotation_(rotation) {
    const FormatRow& format = format_named(point.word("dtype"));
    element_ = format.type == CUDA_R_32F ? 4 : 2;
    m_ = whole(point, "m");
    n_ = whole(point, "n");
    k_ = whole(point, "k");
    batch_ = whole(point, "batch");
    CudaLibrary::check(cuda.matmul_create(&product_, format.compute, CUDA_R_32F), "a product");
    const bool a_turned = point.word("layout") == "tn";
    const bool b_turned = point.word("layout") == "nt";
    turn(CUBLASLT_MATMUL_DESC_TRANSA, b_turned);
    turn(CUBLASLT_MATMUL_DESC_TRANSB, a_turned);
    first_ = b_turned ? layout(format.type, k_, n_) : layout(format.type, n_, k_);
    second_ = a_turned ? layout(format.type, m_, k_) : layout(format.type, k_, m_);
    result_ = layout(format.type, n_, m_);
    set_bytes_ = static_cast<std::size_t>(batch_ * (m_ * k_ + k_ * n_ + m_ * n_)) * element_;
    set_bytes_ = (set_bytes_ + 255) / 256 * 256;
    start_ = memory.filled(set_bytes_ * rotation_.sets() + kWorkspace, format.type);
    choose();
  }
  ~MatmulTrial() override {
    for (cublasLtMatrixLayout_t layout : {first_, second_, result_}) cuda_.layout_destroy(layout);
    cuda_.matmul_destroy(product_);
  }
  MatmulTrial(const MatmulTrial&) = delete;
  MatmulTrial& operator=(const MatmulTrial&) = delete;

 private:
  static std::int64_t whole(const Point& point, std::string_view name) {
    return static_cast<std::int64_t>(point.number(name));
  }

  void turn(cublasLtMatmulDescAttributes_t which, bool turned) {
    const cublasOperation_t operation = turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    CudaLibrary::check(cuda_.matmul_set(product_, which, &operation, sizeof operation),
                       "a product");
  }

  cublasLtMatrixLayout_t layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
    cublasLtMatrixLayout_t made = nullptr;
    CudaLibrary::check(cuda_.layout_create(&made, type, static_cast<std::uint64_t>(rows),
                                           static_cast<std::uint64_t>(columns), rows),
                       "a matrix");
    if (batch_ == 1) return made;
    const auto count = static_cast<std::int32_t>(batch_);
    const std::int64_t stride = rows * columns;
    CudaLibrary::check(
        cuda_.layout_set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "a batch");
    CudaLibrary::check(
        cuda_.layout_set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
        "a batch");
    return made;
  }

  void choose() {
    cublasLtMatmulPreference_t preference = nullptr;
    CudaLibrary::check(cuda_.preference_create(&preference), "a preference");
    const std::size_t workspace = kWorkspace;
    CudaLibrary::check(cuda_.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                            &workspace, sizeof workspace),
                       "a preference");
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t result = cuda_.heuristic(blas_, product_, first_, second_, result_,
                                                  result_, preference, 1, &found, &count);
    cuda_.preference_destroy(preference);
    CudaLibrary::check(result, "no kernel for this product");
    if (count == 0) throw Unmeasurable{"no kernel for this product"};
    kernel_ = found.algo;
  }

  void call_once() override {
    const float one = 1.0F;
    const float zero = 0.0F;
    char* set = start_ + kWorkspace + rotation_.next() * set_bytes_;
    char* a = set;
    char* b = a + static_cast<std::size_t>(batch_ * m_ * k_) * element_;
    char* c = b + static_cast<std::size_t>(batch_ * k_ * n_) * element_;
    CudaLibrary::check(cuda_.matmul(blas_, product_, &one, b, first_, a, second_, &zero, c, result_,
                                    c, result_, &kernel_, start_, kWorkspace, nullptr),
                       "a product");
  }

  cublasLtHandle_t blas_;
  Rotation rotation_;
  std::size_t element_ = 4;
  std::int64_t m_ = 1;
  std::int64_t n_ = 1;
  std::int64_t k_ = 1;
  std::int64_t batch_ = 1;
  std::size_t set_bytes_ = 0;
  char* start_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr;
  cublasLtMatrixLayout_t second_ = nullptr;
  cublasLtMatrixLayout_t result_ = nullptr;
  cublasLtMatmulAlgo_t kernel_{};
};

class CopyTrial final : public TimedTrial {
 public:
  CopyTrial(const CudaLibrary& cuda, char* to, const char* from, std::size_t bytes,
            std::size_t stride, Rotation rotation)
      : TimedTrial(cuda),
        to_(to),
        from_(from),
        bytes_(bytes),
        stride_(stride),
        rotation_(rotation) {}

 private:
  void call_once() override {
    const std::size_t set = rotation_.next() * stride_;
    cuda_.check(cuda_.copy(to_ + set, from_ + set, bytes_, cudaMemcpyDefault, nullptr), "a copy");
  }

  char* to_;
  const char* from_;
  std::size_t bytes_;
  std::size_t stride_;
  Rotation rotation_;
};

class PassTrial final : public TimedTrial {
 public:
  PassTrial(const CudaLibrary& cuda, CUfunction kernel, const StreamPass& pass, double bytes,
            unsigned blocks, Rotation rotation, DeviceMemory& memory)
      : TimedTrial(cuda), kernel_(kernel), blocks_(blocks), rotation_(rotation) {
    count_ = static_cast<unsigned long long>(bytes) / sizeof(float) /
             static_cast<unsigned long long>(pass.reads + pass.writes);
    reads_ = static_cast<std::size_t>(pass.reads > 2 ? pass.reads - pass.writes : pass.reads);
    set_ = (reads_ + static_cast<std::size_t>(pass.writes)) * count_ * sizeof(float);
    start_ = memory.filled(set_ * rotation_.sets(), CUDA_R_32F);
  }

 private:
  void call_once() override {
    const char* read = start_ + rotation_.next() * set_;
    const char* written = read + reads_ * count_ * sizeof(float);
    unsigned long long count = count_;
    unsigned long long stride = count_;
    std::array<void*, 4> arguments{&read, &written, &count, &stride};
    CudaLibrary::check(cuda_.launch(kernel_, blocks_, 1, 1, kCudaThreads, 1, 1, 0, nullptr,
                                    arguments.data(), nullptr),
                       "a pass over memory");
  }

  CUfunction kernel_;
  unsigned blocks_;
  Rotation rotation_;
  unsigned long long count_ = 0;
  std::size_t reads_ = 0;
  std::size_t set_ = 0;
  char* start_ = nullptr;
};

/// Pinned memory of the host.
class HostMemory {
 public:
  explicit HostMemory(const CudaLibrary& cuda) : cuda_(cuda) {}
  ~HostMemory() { static_cast<void>(cuda_.release_host(start_)); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  char* at_least(std::size_t bytes) {
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

 private:
  const CudaLibrary& cuda_;
  char* start_ = nullptr;
  std::size_t size_ = 0;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const BackendOptions& options)
      : memory_(cuda_), host_(cuda_), most_bytes_(options.most_bytes) {
    cuda_.check(cuda_.set_device(0), "the first device");
    describe();
    CudaLibrary::check(cuda_.blas_create(&blas_), "cublasLtCreate");
  }

  [[nodiscard]] io::SampledMachine machine() const override { return machine_; }
  // Of a small accelerator: estimates are corrected by what is measured.
  [[nodiscard]] double flop_rate() const override { return 5e13; }
  [[nodiscard]] double byte_rate() const override { return 5e11; }

  [[nodiscard]] std::vector<std::string> formats() const override {
    std::vector<std::string> known;
    for (const FormatRow& row : kFormats) {
      if (capability_ >= row.least_capability) known.emplace_back(row.name);
    }
    return known;
  }

  [[nodiscard]] std::optional<std::string> lacks(const Probe& probe) const override {
    if (probe.name == "collective") {
      return "this build measures one GPU: give logs of nccl-tests to plansearch fit";
    }
    return std::nullopt;
  }

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    const Work work = probe_named(point.probe).work(point);
    const Rotation rotation(work.footprint, machine_.cache_bytes, most_bytes_);
    const auto bytes = static_cast<std::size_t>(work.footprint);
    if (point.probe == "host_copy") {
      char* host = host_.at_least(bytes);
      char* device = memory_.filled(bytes, CUDA_R_32F);
      const bool to_device = point.word("direction") == "to_device";
      return std::make_unique<CopyTrial>(cuda_, to_device ? device : host,
                                         to_device ? host : device, bytes, 0, rotation);
    }
    if (point.probe == "stream") return pass(point, work, rotation);
    return std::make_unique<MatmulTrial>(cuda_, blas_, point, rotation, memory_);
  }

 private:
  std::unique_ptr<Trial> pass(const Point& point, const Work& work, Rotation rotation) {
    const std::string name = point.word("pass");
    if (name == "copy") {
      const std::size_t half = static_cast<std::size_t>(work.bytes) / 2;
      char* start = memory_.filled(2 * half * rotation.sets(), CUDA_R_32F);
      return std::make_unique<CopyTrial>(cuda_, start + half, start, half, 2 * half, rotation);
    }
    constexpr unsigned kBlocksEach = 16;
    for (const StreamPass& row : stream_passes()) {
      if (row.name != name) continue;
      return std::make_unique<PassTrial>(
          cuda_, kernel(name), row, work.bytes,
          kBlocksEach * static_cast<unsigned>(machine_.multiprocessors), rotation, memory_);
    }
    throw Unmeasurable{fmt::format("there is no pass '{}'", name)};
  }

  CUfunction kernel(const std::string& name) {
    if (module_ == nullptr) {
      const std::string code = compile_for(kCudaPasses, capability_);
      CudaLibrary::check(cuda_.module_load(&module_, code.c_str()), "passes over memory");
    }
    CUfunction function = nullptr;
    CudaLibrary::check(cuda_.module_function(&function, module_, name.c_str()), name.c_str());
    return function;
  }

  [[nodiscard]] int attribute(cudaDeviceAttr which) const {
    int value = 0;
    cuda_.check(cuda_.attribute(&value, which, 0), "a device attribute");
    return value;
  }

  void describe() {
    std::array<char, 256> name{};
    CudaLibrary::check(cuda_.device_name(name.data(), static_cast<int>(name.size()), 0),
                       "the name of the device");
    std::size_t free = 0;
    std::size_t total = 0;
    cuda_.check(cuda_.memory_info(&free, &total), "the memory of the device");
    int driver = 0;
    int runtime = 0;
    cuda_.check(cuda_.driver_version(&driver), "the version of the driver");
    cuda_.check(cuda_.runtime_version(&runtime), "the version of CUDA");
    capability_ = 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                  attribute(cudaDevAttrComputeCapabilityMinor);
    machine_.backend = "cuda";
    machine_.name = name.data();
    machine_.multiprocessors = attribute(cudaDevAttrMultiProcessorCount);
    machine_.cache_bytes = attribute(cudaDevAttrL2CacheSize);
    machine_.memory_bytes = static_cast<double>(total);
    machine_.accelerators = 1;
    machine_.facts = {{"driver", fmt::format("{}", driver)},
                      {"cuda", fmt::format("{}", runtime)},
                      {"cublaslt", fmt::format("{}", cuda_.blas_version())},
                      {"devices", fmt::format("{}", cuda_.devices)}};
    most_bytes_ = std::min(most_bytes_, 0.5 * static_cast<double>(free));
  }

  CudaLibrary cuda_;
  DeviceMemory memory_;
  HostMemory host_;
  double most_bytes_;
  io::SampledMachine machine_;
  int capability_ = 0;
  cublasLtHandle_t blas_ = nullptr;
  CUmodule module_ = nullptr;
};

}  // namespace

std::unique_ptr<Backend> make_cuda(const BackendOptions& options, const ShippedData& /*data*/) {
  return std::make_unique<CudaBackend>(options);
}

}  // namespace plansearch::calibrate
