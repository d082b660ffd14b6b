// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/backends/cuda_library.hpp"

#include <cstdlib>

namespace plansearch::calibrate {
namespace {

constexpr const char* kElsewhere =
    "run where an NVIDIA driver is installed, or measure the processor with --backend cpu";

template <typename Function>
void find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) throw Unmeasurable{fmt::format("libcuda.so.1 has no {}", name)};
}

void load_driver(CudaLibrary& own) {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (driver == nullptr) {
    throw Unmeasurable{"no driver: libcuda.so.1 is not on this machine", kElsewhere};
  }
  find(driver, own.device_name, "cuDeviceGetName");
  find(driver, own.module_load, "cuModuleLoadData");
  find(driver, own.module_function, "cuModuleGetFunction");
  find(driver, own.launch, "cuLaunchKernel");
}

void load_streams(CudaLibrary& own, const CudaSharedLibrary& runtime) {
  runtime.find(own.stream_create, "cudaStreamCreateWithFlags");
  runtime.find(own.stream_destroy, "cudaStreamDestroy");
  runtime.find(own.capture_begin, "cudaStreamBeginCapture");
  runtime.find(own.capture_end, "cudaStreamEndCapture");
  runtime.find(own.graph_instantiate, "cudaGraphInstantiateWithFlags");
  runtime.find(own.graph_launch, "cudaGraphLaunch");
  runtime.find(own.graph_destroy, "cudaGraphDestroy");
  runtime.find(own.graph_exec_destroy, "cudaGraphExecDestroy");
}

void load_runtime(CudaLibrary& own) {
  const CudaSharedLibrary runtime("libcudart");
  runtime.find(own.device_count, "cudaGetDeviceCount");
  runtime.find(own.set_device, "cudaSetDevice");
  runtime.find(own.attribute, "cudaDeviceGetAttribute");
  runtime.find(own.memory_info, "cudaMemGetInfo");
  runtime.find(own.driver_version, "cudaDriverGetVersion");
  runtime.find(own.runtime_version, "cudaRuntimeGetVersion");
  runtime.find(own.error_text, "cudaGetErrorString");
  runtime.find(own.allocate, "cudaMalloc");
  runtime.find(own.release, "cudaFree");
  runtime.find(own.allocate_host, "cudaMallocHost");
  runtime.find(own.release_host, "cudaFreeHost");
  runtime.find(own.copy, "cudaMemcpyAsync");
  runtime.find(own.wait, "cudaStreamSynchronize");
  runtime.find(own.bus_id, "cudaDeviceGetPCIBusId");
  runtime.find(own.event_destroy, "cudaEventDestroy");
  load_streams(own, runtime);
  runtime.find(own.event_create, "cudaEventCreate");
  runtime.find(own.event_record, "cudaEventRecord");
  runtime.find(own.event_wait, "cudaEventSynchronize");
  runtime.find(own.event_elapsed, "cudaEventElapsedTime");
}

void load_blas(CudaLibrary& own) {
  const CudaSharedLibrary blas("libcublasLt");
  blas.find(own.blas_create, "cublasLtCreate");
  blas.find(own.blas_version, "cublasLtGetVersion");
  blas.find(own.matmul_create, "cublasLtMatmulDescCreate");
  blas.find(own.matmul_destroy, "cublasLtMatmulDescDestroy");
  blas.find(own.matmul_set, "cublasLtMatmulDescSetAttribute");
  blas.find(own.layout_create, "cublasLtMatrixLayoutCreate");
  blas.find(own.layout_destroy, "cublasLtMatrixLayoutDestroy");
  blas.find(own.layout_set, "cublasLtMatrixLayoutSetAttribute");
  blas.find(own.preference_create, "cublasLtMatmulPreferenceCreate");
  blas.find(own.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  blas.find(own.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  blas.find(own.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  blas.find(own.matmul, "cublasLtMatmul");
}

std::vector<std::string> folders() {
  std::vector<std::string> all{""};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(variable)) all.push_back(std::string(home) + "/lib64/");
  }
  all.emplace_back("/usr/local/cuda/lib64/");
  return all;
}

}  // namespace

CudaLibrary::CudaLibrary() {
  load_driver(*this);
  load_runtime(*this);
  load_blas(*this);
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
  const CudaSharedLibrary compiler("libnvrtc");
  decltype(&::nvrtcCreateProgram) create = nullptr;
  decltype(&::nvrtcCompileProgram) compile = nullptr;
  decltype(&::nvrtcGetPTXSize) size_of = nullptr;
  decltype(&::nvrtcGetPTX) text_of = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy = nullptr;
  compiler.find(create, "nvrtcCreateProgram");
  compiler.find(compile, "nvrtcCompileProgram");
  compiler.find(size_of, "nvrtcGetPTXSize");
  compiler.find(text_of, "nvrtcGetPTX");
  compiler.find(destroy, "nvrtcDestroyProgram");
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

CudaSharedLibrary::CudaSharedLibrary(const std::string& stem,
                                     const std::vector<std::string>& versions)
    : stem_(stem) {
  for (const std::string& version : versions) {
    for (const std::string& folder : folders()) {
      const std::string file = folder + stem + ".so" + version;
      handle_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
      if (handle_ != nullptr) return;
    }
  }
  throw Unmeasurable{fmt::format("{}.so is not on this machine", stem),
                     "install the CUDA libraries, or set CUDA_HOME"};
}

}  // namespace plansearch::calibrate
