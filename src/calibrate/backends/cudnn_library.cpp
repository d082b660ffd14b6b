// SPDX-License-Identifier: Apache-2.0
#include "calibrate/backends/cudnn_library.hpp"

#include <fmt/format.h>

#include <utility>

#include "calibrate/backends/cuda_shared_library.hpp"

namespace plansearch::calibrate {

CudnnLibrary::CudnnLibrary() {
  const CudaSharedLibrary library("libcudnn", {".9"});
  library.find(version, "cudnnGetVersion");
  library.find(error_text, "cudnnGetErrorString");
  library.find(create, "cudnnCreate");
  library.find(destroy, "cudnnDestroy");
  library.find(set_stream, "cudnnSetStream");
  library.find(descriptor_create, "cudnnBackendCreateDescriptor");
  library.find(descriptor_destroy, "cudnnBackendDestroyDescriptor");
  library.find(set, "cudnnBackendSetAttribute");
  library.find(get, "cudnnBackendGetAttribute");
  library.find(finalize, "cudnnBackendFinalize");
  library.find(execute, "cudnnBackendExecute");
}

void CudnnLibrary::check(cudnnStatus_t status, const char* what) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw Unmeasurable{fmt::format("cuDNN: {}: {}", what, error_text(status))};
}

CudnnDescriptor::CudnnDescriptor(const CudnnLibrary& cudnn, cudnnBackendDescriptorType_t type)
    : cudnn_(&cudnn) {
  cudnn_->check(cudnn_->descriptor_create(type, &descriptor_), "a descriptor");
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : cudnn_(other.cudnn_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) static_cast<void>(cudnn_->descriptor_destroy(descriptor_));
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          std::int64_t count, const void* values) {
  cudnn_->check(cudnn_->set(descriptor_, name, type, count, values), "an attribute");
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.descriptor_);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name,
                          const std::vector<std::int64_t>& values) {
  set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}

void CudnnDescriptor::finalize(const char* what) {
  cudnn_->check(cudnn_->finalize(descriptor_), what);
}

bool CudnnDescriptor::try_finalize() {
  return cudnn_->finalize(descriptor_) == CUDNN_STATUS_SUCCESS;
}

}  // namespace plansearch::calibrate
