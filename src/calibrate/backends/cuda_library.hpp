// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA's libraries, loaded at run time: the program starts without them. Only
// functions whose arguments have been the same since CUDA 11.4 are here.
#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <nvrtc.h>

#include <string>
#include <vector>

#include "calibrate/backend.hpp"

namespace plansearch::calibrate {

/// Throws Unmeasurable where the machine lacks a driver, a library or a device.
struct CudaLibrary {
  CudaLibrary();

  decltype(&::cuDeviceGetName) device_name = nullptr;
  decltype(&::cuModuleLoadData) module_load = nullptr;
  decltype(&::cuModuleGetFunction) module_function = nullptr;
  decltype(&::cuLaunchKernel) launch = nullptr;

  decltype(&::cudaGetDeviceCount) device_count = nullptr;
  decltype(&::cudaSetDevice) set_device = nullptr;
  decltype(&::cudaDeviceGetAttribute) attribute = nullptr;
  decltype(&::cudaDeviceGetPCIBusId) bus_id = nullptr;
  decltype(&::cudaMemGetInfo) memory_info = nullptr;
  decltype(&::cudaDriverGetVersion) driver_version = nullptr;
  decltype(&::cudaRuntimeGetVersion) runtime_version = nullptr;
  decltype(&::cudaGetErrorString) error_text = nullptr;
  cudaError_t (*allocate)(void**, std::size_t) = nullptr;
  decltype(&::cudaFree) release = nullptr;
  cudaError_t (*allocate_host)(void**, std::size_t) = nullptr;
  decltype(&::cudaFreeHost) release_host = nullptr;
  decltype(&::cudaMemcpyAsync) copy = nullptr;
  decltype(&::cudaStreamSynchronize) wait = nullptr;
  decltype(&::cudaStreamCreateWithFlags) stream_create = nullptr;
  decltype(&::cudaStreamDestroy) stream_destroy = nullptr;
  cudaError_t (*capture_begin)(cudaStream_t, cudaStreamCaptureMode) = nullptr;
  decltype(&::cudaStreamEndCapture) capture_end = nullptr;
  decltype(&::cudaGraphInstantiateWithFlags) graph_instantiate = nullptr;
  decltype(&::cudaGraphLaunch) graph_launch = nullptr;
  decltype(&::cudaGraphDestroy) graph_destroy = nullptr;
  decltype(&::cudaGraphExecDestroy) graph_exec_destroy = nullptr;
  cudaError_t (*event_create)(cudaEvent_t*) = nullptr;
  decltype(&::cudaEventDestroy) event_destroy = nullptr;
  decltype(&::cudaEventRecord) event_record = nullptr;
  decltype(&::cudaEventSynchronize) event_wait = nullptr;
  decltype(&::cudaEventElapsedTime) event_elapsed = nullptr;

  decltype(&::cublasLtCreate) blas_create = nullptr;
  decltype(&::cublasLtGetVersion) blas_version = nullptr;
  decltype(&::cublasLtMatmulDescCreate) matmul_create = nullptr;
  decltype(&::cublasLtMatmulDescDestroy) matmul_destroy = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) matmul_set = nullptr;
  decltype(&::cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&::cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&::cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&::cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&::cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&::cublasLtMatmul) matmul = nullptr;

  int devices = 0;

  /// Throw Unmeasurable with what the library says.
  void check(cudaError_t result, const char* what) const;
  static void check(cublasStatus_t result, const char* what);
  static void check(CUresult result, const char* what);
};

/// Machine code of a source for a compute capability such as 80; throws Unmeasurable.
[[nodiscard]] std::string compile_for(const char* source, int capability);

/// One library in the first of its versions that is found, for the life of the process: where the
/// system looks, then under CUDA_HOME and /usr/local/cuda.
class CudaSharedLibrary {
 public:
  explicit CudaSharedLibrary(const std::string& stem, const std::vector<std::string>& versions = {
                                                          ".13", ".12", ".11.2", ".11"});

  template <typename Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    if (function == nullptr) throw Unmeasurable{fmt::format("{}.so has no {}", stem_, name)};
  }

 private:
  std::string stem_;
  void* handle_ = nullptr;
};

}  // namespace plansearch::calibrate
