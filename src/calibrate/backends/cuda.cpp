// SPDX-License-Identifier: Apache-2.0
// The first GPU of this machine.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "calibrate/backends/backend_rows.hpp"
#include "calibrate/backends/cuda_kernels.hpp"
#include "calibrate/backends/cuda_trials.hpp"
#include "calibrate/backends/nccl.hpp"

namespace plansearch::calibrate {
namespace {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const BackendOptions& options)
      : memory_(cuda_), host_(cuda_), most_bytes_(options.most_bytes) {
    cuda_.check(cuda_.set_device(0), "the first device");
    describe();
    CudaLibrary::check(cuda_.blas_create(&blas_), "cublasLtCreate");
    try {
      messages_ = make_messages(cuda_);
      machine_.accelerators = cuda_.devices;
      machine_.facts["nccl"] = messages_->version();
    } catch (const Unmeasurable& missing) {
      no_messages_ = missing.reason;
    }
  }

  [[nodiscard]] io::SampledMachine machine() const override { return machine_; }
  // Of a small accelerator: estimates are corrected by what is measured.
  [[nodiscard]] double flop_rate() const override { return 5e13; }
  [[nodiscard]] double byte_rate() const override { return 5e11; }

  [[nodiscard]] std::vector<std::string> formats() const override {
    return cuda_formats(capability_);
  }

  [[nodiscard]] std::optional<std::string> lacks(const Probe& probe) const override {
    if (probe.name == "collective" && !messages_) return no_messages_;
    return std::nullopt;
  }

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    const Work work = probe_named(point.probe).work(point);
    const CudaPlace place{cuda_, memory_, {work.footprint, machine_.cache_bytes, most_bytes_}};
    if (point.probe == "collective") return messages_->prepare(point);
    if (point.probe == "host_copy") return host_copy(place, point, work);
    if (point.probe == "stream") return pass(place, point, work);
    return product_trial(place, blas_, point);
  }

 private:
  std::unique_ptr<Trial> host_copy(const CudaPlace& place, const Point& point, const Work& work) {
    const auto bytes = static_cast<std::size_t>(work.footprint);
    char* host = host_.at_least(bytes);
    char* device = memory_.filled(bytes, CUDA_R_32F);
    const bool to_device = point.word("direction") == "to_device";
    return copy_trial(place, to_device ? device : host, to_device ? host : device, bytes, 0);
  }

  std::unique_ptr<Trial> pass(const CudaPlace& place, const Point& point, const Work& work) {
    constexpr unsigned kBlocksEach = 16;
    const StreamPass& row = stream_pass(point);
    if (row.name == "copy") {
      const std::size_t half = static_cast<std::size_t>(work.bytes) / 2;
      char* start = memory_.filled(2 * half * place.rotation.sets(), CUDA_R_32F);
      return copy_trial(place, start + half, start, half, 2 * half);
    }
    return pass_trial(place, kernel(std::string(row.name)), row, work.bytes,
                      kBlocksEach * static_cast<unsigned>(machine_.multiprocessors));
  }

  CUfunction kernel(const std::string& name) {
    if (module_ == nullptr) {
      const std::string code = compile_for(kCudaPasses, capability_);
      CudaLibrary::check(cuda_.module_load(&module_, code.c_str()), "passes over memory");
    }
    CUfunction function = nullptr;
    const std::string entry = "pass_" + name;  // "norm" is a function of CUDA's own
    CudaLibrary::check(cuda_.module_function(&function, module_, entry.c_str()), entry.c_str());
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
  std::unique_ptr<Messages> messages_;
  std::string no_messages_;
  CUmodule module_ = nullptr;
};

}  // namespace

std::unique_ptr<Backend> make_cuda(const BackendOptions& options, const ShippedData& /*data*/) {
  return std::make_unique<CudaBackend>(options);
}

}  // namespace plansearch::calibrate
