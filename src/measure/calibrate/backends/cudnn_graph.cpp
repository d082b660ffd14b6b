// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/backends/cudnn_graph.hpp"

#include <fmt/format.h>

#include <utility>

namespace plansearch::calibrate {

TensorShape packed(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return {{a, b, c, d}, {b * c * d, c * d, d, 1}};
}

TensorShape turned(TensorShape shape) {
  std::swap(shape.extents[2], shape.extents[3]);
  std::swap(shape.strides[2], shape.strides[3]);
  return shape;
}

CudnnDescriptor& CudnnGraph::add(cudnnBackendDescriptorType_t type) {
  return all_.emplace_back(cudnn_, type);
}

void CudnnGraph::append(CudnnDescriptor& operation, const char* what) {
  operation.finalize(what);
  operations_.push_back(operation.get());
}

CudnnGraph::Tensor CudnnGraph::tensor(cudnnDataType_t type, const TensorShape& shape,
                                      cudnnBackendAttributeName_t flag, bool flagged) {
  constexpr std::int64_t kAlignment = 16;
  CudnnDescriptor& made = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, shape.extents);
  made.set(CUDNN_ATTR_TENSOR_STRIDES, shape.strides);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {next_++});
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {kAlignment});
  if (flagged) made.set(flag, CUDNN_TYPE_BOOLEAN, 1, &flagged);
  made.finalize("a tensor");
  return &made;
}

CudnnGraph::Tensor CudnnGraph::stored(cudnnDataType_t type, const TensorShape& shape) {
  identifiers_.push_back(next_);
  return tensor(type, shape, CUDNN_ATTR_TENSOR_IS_VIRTUAL, false);
}

CudnnGraph::Tensor CudnnGraph::number() {
  identifiers_.push_back(next_);
  return tensor(CUDNN_DATA_FLOAT, packed(1, 1, 1, 1), CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
}

CudnnGraph::Tensor CudnnGraph::between(cudnnDataType_t type, const TensorShape& shape) {
  return tensor(type, shape, CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
}

void CudnnGraph::product(Tensor a, Tensor b, Tensor result) {
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  CudnnDescriptor& rule = add(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  rule.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  rule.finalize("a product");
  CudnnDescriptor& operation = add(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *result);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, rule);
  append(operation, "a product");
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor other, Tensor result,
                           cudnnDataType_t compute, Tensor mask, std::optional<std::int64_t> axis) {
  CudnnDescriptor& rule = add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  rule.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  rule.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  if (axis) rule.set(CUDNN_ATTR_POINTWISE_AXIS, {*axis});
  rule.finalize("an element-wise operation");
  CudnnDescriptor& operation = add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, rule);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x);
  if (other != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *other);
  if (mask != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *mask);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *result);
  append(operation, "an element-wise operation");
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t kind, Tensor x, Tensor result) {
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  CudnnDescriptor& rule = add(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  rule.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  rule.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &kind);
  rule.finalize("a reduction");
  CudnnDescriptor& operation = add(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *result);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, rule);
  append(operation, "a reduction");
}

void CudnnGraph::reshape(Tensor x, Tensor result) {
  CudnnDescriptor& operation = add(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *result);
  append(operation, "a change of shape");
}

CudnnDescriptor CudnnGraph::finish(cudnnHandle_t handle) {
  CudnnDescriptor graph(cudnn_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<std::int64_t>(operations_.size()), operations_.data());
  graph.finalize("a graph");
  return graph;
}

CudnnDescriptor CudnnGraph::plan(cudnnHandle_t handle, const CudnnDescriptor& graph) const {
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  CudnnDescriptor heuristic(cudnn_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristic.finalize("a heuristic");
  std::int64_t count = 0;
  cudnn_.check(cudnn_.get(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
               "a heuristic");
  std::deque<CudnnDescriptor> engines;
  std::vector<cudnnBackendDescriptor_t> found;
  for (std::int64_t i = 0; i < count; ++i) {
    found.push_back(engines.emplace_back(cudnn_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  std::int64_t given = 0;
  if (count > 0) {
    cudnn_.check(cudnn_.get(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &given, found.data()),
                 "a heuristic");
  }
  for (std::int64_t i = 0; i < given; ++i) {
    CudnnDescriptor plan(cudnn_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engines[static_cast<std::size_t>(i)]);
    if (plan.try_finalize()) return plan;
  }
  throw Unmeasurable{"cuDNN has no kernel for this shape"};
}

std::int64_t CudnnGraph::workspace(const CudnnDescriptor& plan) const {
  std::int64_t bytes = 0;
  std::int64_t count = 0;
  cudnn_.check(cudnn_.get(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                          &count, &bytes),
               "a workspace");
  return bytes;
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
