// SPDX-License-Identifier: Apache-2.0
// The graph interface of cuDNN 9, loaded at run time.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <string>
#include <vector>

namespace plansearch::calibrate {

/// Throws Unmeasurable where the library is not on this machine.
struct CudnnLibrary {
  CudnnLibrary();

  decltype(&::cudnnGetVersion) version = nullptr;
  decltype(&::cudnnGetErrorString) error_text = nullptr;
  decltype(&::cudnnCreate) create = nullptr;
  decltype(&::cudnnDestroy) destroy = nullptr;
  decltype(&::cudnnSetStream) set_stream = nullptr;
  decltype(&::cudnnBackendCreateDescriptor) descriptor_create = nullptr;
  decltype(&::cudnnBackendDestroyDescriptor) descriptor_destroy = nullptr;
  decltype(&::cudnnBackendSetAttribute) set = nullptr;
  decltype(&::cudnnBackendGetAttribute) get = nullptr;
  decltype(&::cudnnBackendFinalize) finalize = nullptr;
  decltype(&::cudnnBackendExecute) execute = nullptr;

  /// Throws Unmeasurable with what the library says.
  void check(cudnnStatus_t status, const char* what) const;
};

/// One descriptor, and those that it refers to.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const CudnnLibrary& cudnn, cudnnBackendDescriptorType_t type);
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  ~CudnnDescriptor();
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;

  [[nodiscard]] cudnnBackendDescriptor_t get() const { return descriptor_; }
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other);
  void set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values);
  void finalize(const char* what);
  /// Whether the library takes it: an engine may not run a graph.
  [[nodiscard]] bool try_finalize();

 private:
  const CudnnLibrary* cudnn_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace plansearch::calibrate
