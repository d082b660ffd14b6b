// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA's libraries, loaded at run time: the program starts without them. Only
// functions whose arguments have been the same since CUDA 11.4 are here.
#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include <string>
#include <vector>

#include "measure/calibrate/backend.hpp"

namespace plansearch::calibrate {

/// One library of CUDA in the first of its versions that is found: where the system looks, then under
/// CUDA_HOME and /usr/local/cuda. Throws Unmeasurable where it is not on this machine.
[[nodiscard]] SharedLibrary cuda_library(const std::string& stem,
                                         const std::vector<std::string>& versions = {
                                             ".13", ".12", ".11.2", ".11"});
[[nodiscard]] Unmeasurable no_driver();

/// Throws Unmeasurable where the machine lacks a driver, a library or a device.
struct CudaLibrary {
  CudaLibrary();

  SharedLibrary driver{"libcuda.so.1", {"libcuda.so.1"}, no_driver()};
  decltype(&::cuDeviceGetName) device_name = driver["cuDeviceGetName"];
  decltype(&::cuModuleLoadData) module_load = driver["cuModuleLoadData"];
  decltype(&::cuModuleGetFunction) module_function = driver["cuModuleGetFunction"];
  decltype(&::cuLaunchKernel) launch = driver["cuLaunchKernel"];

  SharedLibrary runtime = cuda_library("libcudart");
  decltype(&::cudaGetDeviceCount) device_count = runtime["cudaGetDeviceCount"];
  decltype(&::cudaSetDevice) set_device = runtime["cudaSetDevice"];
  decltype(&::cudaDeviceGetAttribute) attribute = runtime["cudaDeviceGetAttribute"];
  decltype(&::cudaDeviceGetPCIBusId) bus_id = runtime["cudaDeviceGetPCIBusId"];
  decltype(&::cudaMemGetInfo) memory_info = runtime["cudaMemGetInfo"];
  decltype(&::cudaDriverGetVersion) driver_version = runtime["cudaDriverGetVersion"];
  decltype(&::cudaRuntimeGetVersion) runtime_version = runtime["cudaRuntimeGetVersion"];
  decltype(&::cudaGetErrorString) error_text = runtime["cudaGetErrorString"];
  cudaError_t (*allocate)(void**, std::size_t) = runtime["cudaMalloc"];
  decltype(&::cudaFree) release = runtime["cudaFree"];
  cudaError_t (*allocate_host)(void**, std::size_t) = runtime["cudaMallocHost"];
  decltype(&::cudaFreeHost) release_host = runtime["cudaFreeHost"];
  decltype(&::cudaMemcpyAsync) copy = runtime["cudaMemcpyAsync"];
  decltype(&::cudaStreamSynchronize) wait = runtime["cudaStreamSynchronize"];
  decltype(&::cudaStreamCreateWithFlags) stream_create = runtime["cudaStreamCreateWithFlags"];
  decltype(&::cudaStreamDestroy) stream_destroy = runtime["cudaStreamDestroy"];
  cudaError_t (*capture_begin)(cudaStream_t,
                               cudaStreamCaptureMode) = runtime["cudaStreamBeginCapture"];
  decltype(&::cudaStreamEndCapture) capture_end = runtime["cudaStreamEndCapture"];
  decltype(&::cudaGraphInstantiateWithFlags) graph_instantiate =
      runtime["cudaGraphInstantiateWithFlags"];
  decltype(&::cudaGraphLaunch) graph_launch = runtime["cudaGraphLaunch"];
  decltype(&::cudaGraphDestroy) graph_destroy = runtime["cudaGraphDestroy"];
  decltype(&::cudaGraphExecDestroy) graph_exec_destroy = runtime["cudaGraphExecDestroy"];
  cudaError_t (*event_create)(cudaEvent_t*) = runtime["cudaEventCreate"];
  decltype(&::cudaEventDestroy) event_destroy = runtime["cudaEventDestroy"];
  decltype(&::cudaEventRecord) event_record = runtime["cudaEventRecord"];
  decltype(&::cudaEventSynchronize) event_wait = runtime["cudaEventSynchronize"];
  decltype(&::cudaEventElapsedTime) event_elapsed = runtime["cudaEventElapsedTime"];

  SharedLibrary blas = cuda_library("libcublasLt");
  decltype(&::cublasLtCreate) blas_create = blas["cublasLtCreate"];
  decltype(&::cublasLtGetVersion) blas_version = blas["cublasLtGetVersion"];
  decltype(&::cublasLtMatmulDescCreate) matmul_create = blas["cublasLtMatmulDescCreate"];
  decltype(&::cublasLtMatmulDescDestroy) matmul_destroy = blas["cublasLtMatmulDescDestroy"];
  decltype(&::cublasLtMatmulDescSetAttribute) matmul_set = blas["cublasLtMatmulDescSetAttribute"];
  decltype(&::cublasLtMatrixLayoutCreate) layout_create = blas["cublasLtMatrixLayoutCreate"];
  decltype(&::cublasLtMatrixLayoutDestroy) layout_destroy = blas["cublasLtMatrixLayoutDestroy"];
  decltype(&::cublasLtMatrixLayoutSetAttribute) layout_set =
      blas["cublasLtMatrixLayoutSetAttribute"];
  decltype(&::cublasLtMatmulPreferenceCreate) preference_create =
      blas["cublasLtMatmulPreferenceCreate"];
  decltype(&::cublasLtMatmulPreferenceDestroy) preference_destroy =
      blas["cublasLtMatmulPreferenceDestroy"];
  decltype(&::cublasLtMatmulPreferenceSetAttribute) preference_set =
      blas["cublasLtMatmulPreferenceSetAttribute"];
  decltype(&::cublasLtMatmulAlgoGetHeuristic) heuristic = blas["cublasLtMatmulAlgoGetHeuristic"];
  decltype(&::cublasLtMatmul) matmul = blas["cublasLtMatmul"];

  int devices = 0;

  /// Throw Unmeasurable with what the library says.
  void check(cudaError_t result, const char* what) const;
  static void check(cublasStatus_t result, const char* what);
  static void check(CUresult result, const char* what);
};

/// Machine code of a source for a compute capability such as 80; throws Unmeasurable.
[[nodiscard]] std::string compile_for(const char* source, int capability);

}  // namespace plansearch::calibrate
