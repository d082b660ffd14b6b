// SPDX-License-Identifier: Apache-2.0
// Operations of cuDNN's graph interface, one after the other.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "calibrate/backends/cudnn_library.hpp"

namespace plansearch::calibrate {

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
  /// `other` and `mask` may be null.
  void pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor other, Tensor result,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT, Tensor mask = nullptr);
  /// The place of every element along one dimension.
  void index(Tensor like, std::int64_t dimension, Tensor result);
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

  const CudnnLibrary& cudnn_;
  std::deque<CudnnDescriptor> all_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::vector<std::int64_t> identifiers_;  ///< of what is stored or given
  std::int64_t next_ = 1;
};

}  // namespace plansearch::calibrate
