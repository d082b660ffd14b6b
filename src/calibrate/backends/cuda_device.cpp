// SPDX-License-Identifier: Apache-2.0
#include "calibrate/backends/cuda_device.hpp"

#include <fmt/format.h>

#include <array>

#include "calibrate/backend.hpp"

namespace plansearch::calibrate {
namespace {

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

}  // namespace

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

}  // namespace plansearch::calibrate
