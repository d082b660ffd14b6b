// SPDX-License-Identifier: Apache-2.0
// The graph interface of cuDNN 9, loaded at run time: operations one after the other.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "measure/calibrate/backends/cuda_library.hpp"

namespace plansearch::calibrate {

/// Throws Unmeasurable where the library is not on this machine.
struct CudnnLibrary {
  SharedLibrary library = cuda_library("libcudnn", {".9"});
  decltype(&::cudnnGetVersion) version = library["cudnnGetVersion"];
  decltype(&::cudnnGetErrorString) error_text = library["cudnnGetErrorString"];
  decltype(&::cudnnCreate) create = library["cudnnCreate"];
  decltype(&::cudnnDestroy) destroy = library["cudnnDestroy"];
  decltype(&::cudnnSetStream) set_stream = library["cudnnSetStream"];
  decltype(&::cudnnBackendCreateDescriptor) descriptor_create =
      library["cudnnBackendCreateDescriptor"];
  decltype(&::cudnnBackendDestroyDescriptor) descriptor_destroy =
      library["cudnnBackendDestroyDescriptor"];
  decltype(&::cudnnBackendSetAttribute) set = library["cudnnBackendSetAttribute"];
  decltype(&::cudnnBackendGetAttribute) get = library["cudnnBackendGetAttribute"];
  decltype(&::cudnnBackendFinalize) finalize = library["cudnnBackendFinalize"];
  decltype(&::cudnnBackendExecute) execute = library["cudnnBackendExecute"];

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

/// Four extents and how far apart their neighbours lie.
struct TensorShape {
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> strides;
};
[[nodiscard]] TensorShape packed(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d);
/// The last two exchanged, in the same memory.
[[nodiscard]] TensorShape turned(TensorShape shape);

class CudnnGraph {
 public:
  explicit CudnnGraph(const CudnnLibrary& cudnn) : cudnn_(cudnn) {}

  using Tensor = const CudnnDescriptor*;
  /// In memory; identifiers count from one in the order of these calls.
  Tensor stored(cudnnDataType_t type, const TensorShape& shape);
  /// One number, given by value when the graph runs.
  Tensor number();
  /// Between two operations only.
  Tensor between(cudnnDataType_t type, const TensorShape& shape);

  void product(Tensor a, Tensor b, Tensor result);
  /// `other` and `mask` may be null; `axis`: of modes that run along one dimension.
  void pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor other, Tensor result,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT, Tensor mask = nullptr,
                 std::optional<std::int64_t> axis = {});
  /// The place of every element along one dimension.
  void index(Tensor like, std::int64_t dimension, Tensor result) {
    pointwise(CUDNN_POINTWISE_GEN_INDEX, like, nullptr, result, CUDNN_DATA_INT32, nullptr,
              dimension);
  }
  void reduce(cudnnReduceTensorOp_t operation, Tensor x, Tensor result);
  void reshape(Tensor x, Tensor result);

  /// The whole graph; a null handle is enough to see whether it is well formed.
  [[nodiscard]] CudnnDescriptor finish(cudnnHandle_t handle);
  /// The first plan of the library's heuristic that it can run. Throws Unmeasurable.
  [[nodiscard]] CudnnDescriptor plan(cudnnHandle_t handle, const CudnnDescriptor& graph) const;
  [[nodiscard]] std::int64_t workspace(const CudnnDescriptor& plan) const;
  [[nodiscard]] const std::vector<std::int64_t>& identifiers() const { return identifiers_; }

 private:
  Tensor tensor(cudnnDataType_t type, const TensorShape& shape, cudnnBackendAttributeName_t flag,
                bool flagged);
  CudnnDescriptor& add(cudnnBackendDescriptorType_t type);
  /// Ends the description of an operation, which follows the others.
  void append(CudnnDescriptor& operation, const char* what);

  const CudnnLibrary& cudnn_;
  std::deque<CudnnDescriptor> all_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::vector<std::int64_t> identifiers_;  ///< of what is stored or given
  std::int64_t next_ = 1;
};

}  // namespace plansearch::calibrate
