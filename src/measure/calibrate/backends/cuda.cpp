// SPDX-License-Identifier: Apache-2.0
// The GPUs of this machine: all by one process, or one by each of several.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "measure/calibrate/backend.hpp"
#include "measure/calibrate/backends/cuda_calls.hpp"
#include "measure/calibrate/backends/cuda_kernels.hpp"
#include "measure/calibrate/backends/cuda_library.hpp"
#include "measure/calibrate/backends/nvml.hpp"

namespace plansearch::calibrate {
namespace {

struct CudaDevice {
  std::string name;
  std::string bus_id;
  int capability = 0;  ///< 90 for 9.0
  int multiprocessors = 1;
  double cache_bytes = 0.0;
  double memory_bytes = 0.0;  ///< of the current device
  double free_bytes = 0.0;    ///< of the current device
};

int attribute(const CudaLibrary& cuda, cudaDeviceAttr which, int device) {
  int value = 0;
  cuda.check(cuda.attribute(&value, which, device), "a device attribute");
  return value;
}

std::string name_of(const CudaLibrary& cuda, int device) {
  std::array<char, 256> name{};
  CudaLibrary::check(cuda.device_name(name.data(), static_cast<int>(name.size()), device),
                     "the name of the device");
  return name.data();
}

CudaDevice describe_device(const CudaLibrary& cuda, int device) {
  CudaDevice found;
  found.name = name_of(cuda, device);
  std::array<char, 32> bus_id{};
  cuda.check(cuda.bus_id(bus_id.data(), static_cast<int>(bus_id.size()), device),
             "the address of the device");
  found.bus_id = bus_id.data();
  found.capability = 10 * attribute(cuda, cudaDevAttrComputeCapabilityMajor, device) +
                     attribute(cuda, cudaDevAttrComputeCapabilityMinor, device);
  found.multiprocessors = attribute(cuda, cudaDevAttrMultiProcessorCount, device);
  found.cache_bytes = attribute(cuda, cudaDevAttrL2CacheSize, device);
  std::size_t free = 0;
  std::size_t total = 0;
  cuda.check(cuda.memory_info(&free, &total), "the memory of the device");
  found.memory_bytes = static_cast<double>(total);
  found.free_bytes = static_cast<double>(free);
  return found;
}

/// Versions of driver, CUDA and cuBLASLt, and the number of devices.
std::map<std::string, std::string> library_facts(const CudaLibrary& cuda) {
  int driver = 0;
  int runtime = 0;
  cuda.check(cuda.driver_version(&driver), "the version of the driver");
  cuda.check(cuda.runtime_version(&runtime), "the version of CUDA");
  return {{"cuda of the driver", fmt::format("{}", driver)},
          {"cuda", fmt::format("{}", runtime)},
          {"cublaslt", fmt::format("{}", cuda.blas_version())},
          {"devices", fmt::format("{}", cuda.devices)}};
}

/// Throws Unmeasurable that names the first device that is not like the others.
void require_alike(const CudaLibrary& cuda, const std::vector<int>& devices) {
  const std::string first = name_of(cuda, devices.front());
  for (const int device : devices) {
    const std::string name = name_of(cuda, device);
    if (name == first) continue;
    throw Unmeasurable{fmt::format("the GPUs of this node differ: {} is {}, {} is {}",
                                   devices.front(), first, device, name),
                       "measure one kind at a time: choose with CUDA_VISIBLE_DEVICES"};
  }
}

/// One after the other, all of one kind.
std::vector<int> own_devices(const CudaLibrary& cuda, const Processes* processes) {
  if (processes != nullptr) return {processes->place_in_node() % cuda.devices};
  std::vector<int> all;
  for (int device = 0; device < cuda.devices; ++device) all.push_back(device);
  return all;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(const BackendOptions& options, std::shared_ptr<Processes> processes)
      : processes_(std::move(processes)),
        devices_(own_devices(cuda_, processes_.get())),
        memory_(cuda_),
        other_memory_(cuda_),
        scales_(cuda_),
        host_(cuda_),
        other_host_(cuda_),
        most_bytes_(options.most_bytes) {
    cuda_.check(cuda_.set_device(devices_.front()), "the first device");
    describe();
    CudaLibrary::check(cuda_.blas_create(&blas_), "cublasLtCreate");
    try {
      messages_ = make_messages(cuda_, devices_, processes_.get());
      machine_.facts["nccl"] = messages_->version();
    } catch (const Unmeasurable& missing) {
      no_messages_ = missing.reason;
    }
    cuda_.check(cuda_.set_device(devices_.front()), "the first device");
    try {
      attention_ = make_attention();
      machine_.facts["cudnn"] = attention_->version();
    } catch (const Unmeasurable& missing) {
      no_attention_ = missing.reason + "; tools/attention_times.py times the kernels of PyTorch";
    }
  }

  [[nodiscard]] io::SampledMachine machine() const override { return machine_; }
  // Rates of a small accelerator: estimates are corrected by measured times.
  [[nodiscard]] double flop_rate() const override { return 5e13; }
  [[nodiscard]] double byte_rate() const override { return 5e11; }

  [[nodiscard]] std::vector<std::string> formats() const override {
    return cuda_formats(capability_);
  }

  [[nodiscard]] std::optional<std::string> lacks(const Probe& probe) const override {
    if (probe.name == "collective" && !messages_) return no_messages_;
    if (probe.name == "attention" && !attention_) return no_attention_;
    return std::nullopt;
  }

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    if (point.probe == "launch") {
      auto call = launch_call(kernel("nothing"), cuda_);
      const bool graph = point.word("kernel") == "graph";
      return graph ? captured(cuda_, std::move(call)) : timed(cuda_, std::move(call));
    }
    if (point.probe != "overlap") return timed(cuda_, call_of(point, memory_, host_));
    const OverlapParts parts = overlap_parts(point);
    auto call = call_of(parts.timed, memory_, host_);
    if (!parts.beside) return timed(cuda_, std::move(call));
    auto beside = call_of(*parts.beside, other_memory_, other_host_);
    return overlapped(cuda_, std::move(call), std::move(beside),
                      [this](double value) { return processes_ ? processes_->max(value) : value; });
  }

  /// A fault inside a kernel ends every later call of the process.
  [[nodiscard]] std::optional<std::string> broken() override {
    const cudaError_t result = cuda_.wait(nullptr);
    if (result == cudaSuccess) return std::nullopt;
    return cuda_.error_text(result);
  }

  [[nodiscard]] io::SampleState state() override {
    return nvml_ ? nvml_->state(0) : io::SampleState{};
  }

 private:
  std::unique_ptr<DeviceCall> call_of(const Point& point, DeviceMemory& memory, HostMemory& host) {
    const Work work = probe_named(point.probe).work(point);
    const CudaPlace place{cuda_, memory, {work.footprint, machine_.cache_bytes, most_bytes_}};
    if (point.probe == "collective") {
      if (!messages_) throw Unmeasurable{no_messages_};
      return messages_->prepare(point);
    }
    if (point.probe == "host_copy") return host_copy(place, host, point, work);
    if (point.probe == "stream") return pass(place, point, work);
    if (point.probe == "attention") {
      if (!attention_) throw Unmeasurable{no_attention_};
      return attention_->prepare(place, point);
    }
    return product_call(place, scales_, blas_, point);
  }

  static std::unique_ptr<DeviceCall> host_copy(const CudaPlace& place, HostMemory& pinned,
                                               const Point& point, const Work& work) {
    const auto bytes = static_cast<std::size_t>(work.footprint);
    char* host = pinned.at_least(bytes);
    char* device = place.memory.filled(bytes, CUDA_R_32F);
    const bool to_device = point.word("direction") == "to_device";
    return copy_call(place, to_device ? device : host, to_device ? host : device, bytes, 0);
  }

  std::unique_ptr<DeviceCall> pass(const CudaPlace& place, const Point& point, const Work& work) {
    constexpr unsigned kBlocksEach = 16;
    const StreamPass& row = stream_pass(point);
    if (row.name == "copy") {
      const std::size_t half = static_cast<std::size_t>(work.bytes) / 2;
      char* start = place.memory.filled(2 * half * place.rotation.sets(), CUDA_R_32F);
      return copy_call(place, start + half, start, half, 2 * half);
    }
    return pass_call(place, kernel(std::string(row.name)), row, work.bytes,
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

  void describe() {
    const CudaDevice first = describe_device(cuda_, devices_.front());
    require_alike(cuda_, devices_);
    capability_ = first.capability;
    machine_.backend = "cuda";
    machine_.name = first.name;
    machine_.multiprocessors = first.multiprocessors;
    machine_.cache_bytes = first.cache_bytes;
    machine_.memory_bytes = first.memory_bytes;
    machine_.accelerators = static_cast<int>(devices_.size());
    machine_.facts = library_facts(cuda_);
    std::vector<std::string> bus_ids;
    for (const int device : devices_) bus_ids.push_back(describe_device(cuda_, device).bus_id);
    nvml_ = Nvml::open(bus_ids);
    if (nvml_) {
      for (const auto& [name, fact] : nvml_->facts()) machine_.facts[name] = fact;
    } else {
      machine_.facts["nvml"] = "not found: clocks, power and topology are not recorded";
    }
    // Share of the free memory, for operands of both parts of an overlap.
    constexpr double kShare = 0.35;
    most_bytes_ = std::min(most_bytes_, kShare * first.free_bytes);
  }

  CudaLibrary cuda_;
  std::shared_ptr<Processes> processes_;
  std::vector<int> devices_;
  DeviceMemory memory_;
  DeviceMemory other_memory_;
  DeviceMemory scales_;
  HostMemory host_;
  HostMemory other_host_;
  double most_bytes_;
  io::SampledMachine machine_;
  int capability_ = 0;
  cublasLtHandle_t blas_ = nullptr;
  std::unique_ptr<Nvml> nvml_;
  std::unique_ptr<Messages> messages_;
  std::string no_messages_;
  std::unique_ptr<FusedAttention> attention_;
  std::string no_attention_;
  CUmodule module_ = nullptr;
};

}  // namespace

std::unique_ptr<Backend> make_cuda(const BackendOptions& options, const ShippedData& /*data*/) {
  static_cast<void>(CudaLibrary());  // without a driver there is no process to wait for
  const std::shared_ptr<Processes> processes = join_processes(options.on_loss);
  auto own = std::make_unique<CudaBackend>(options, processes);
  if (!processes) return own;
  return together(processes, std::move(own));
}

}  // namespace plansearch::calibrate
