// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/backends/cuda_library.hpp"

#include <cstdlib>

namespace plansearch::calibrate {
namespace {

constexpr const char* kElsewhere =
    "run where an NVIDIA driver is installed, or measure the processor with --backend cpu";

std::vector<std::string> folders() {
  std::vector<std::string> all{""};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(variable)) all.push_back(std::string(home) + "/lib64/");
  }
  all.emplace_back("/usr/local/cuda/lib64/");
  return all;
}

}  // namespace

Unmeasurable no_driver() {
  return {"no driver: libcuda.so.1 is not on this machine", kElsewhere};
}

CudaLibrary::CudaLibrary() {
  const cudaError_t found = device_count(&devices);
  if (found != cudaSuccess || devices < 1) {
    throw Unmeasurable{fmt::format("no device: {}", found == cudaSuccess ? "the driver counts none"
                                                                         : error_text(found)),
                       kElsewhere};
  }
}

void CudaLibrary::check(cudaError_t result, const char* what) const {
  if (result != cudaSuccess) throw Unmeasurable{fmt::format("{}: {}", what, error_text(result))};
}

void CudaLibrary::check(cublasStatus_t result, const char* what) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  throw Unmeasurable{fmt::format("{}: cublasLt status {}", what, static_cast<int>(result))};
}

void CudaLibrary::check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  throw Unmeasurable{fmt::format("{}: CUDA driver error {}", what, static_cast<int>(result))};
}

std::string compile_for(const char* source, int capability) {
  const SharedLibrary compiler = cuda_library("libnvrtc");
  const decltype(&::nvrtcCreateProgram) create = compiler["nvrtcCreateProgram"];
  const decltype(&::nvrtcCompileProgram) compile = compiler["nvrtcCompileProgram"];
  const decltype(&::nvrtcGetPTXSize) size_of = compiler["nvrtcGetPTXSize"];
  const decltype(&::nvrtcGetPTX) text_of = compiler["nvrtcGetPTX"];
  const decltype(&::nvrtcDestroyProgram) destroy = compiler["nvrtcDestroyProgram"];
  nvrtcProgram program = nullptr;
  const std::string target = fmt::format("--gpu-architecture=compute_{}", capability);
  const char* option = target.c_str();
  std::size_t size = 0;
  std::string text;
  bool whole = create(&program, source, "passes.cu", 0, nullptr, nullptr) == NVRTC_SUCCESS &&
               compile(program, 1, &option) == NVRTC_SUCCESS &&
               size_of(program, &size) == NVRTC_SUCCESS;
  if (whole) {
    text.resize(size);
    whole = text_of(program, text.data()) == NVRTC_SUCCESS;
  }
  if (program != nullptr) static_cast<void>(destroy(&program));
  if (!whole) throw Unmeasurable{"passes over memory do not compile for this device"};
  return text;
}

SharedLibrary cuda_library(const std::string& stem, const std::vector<std::string>& versions) {
  std::vector<std::string> files;
  for (const std::string& version : versions) {
    for (const std::string& folder : folders()) files.push_back(folder + stem + ".so" + version);
  }
  return {stem + ".so",
          files,
          {fmt::format("{}.so is not on this machine", stem),
           "install the CUDA libraries, or set CUDA_HOME"}};
}

}  // namespace plansearch::calibrate
