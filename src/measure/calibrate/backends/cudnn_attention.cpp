// SPDX-License-Identifier: Apache-2.0
// Forward: scores, mask, softmax with its statistics, context. Backward: scores again from the
// statistics, then the gradients of values, scores, queries and keys.
#include "measure/calibrate/backends/cuda_calls.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "measure/calibrate/backends/cudnn_graph.hpp"

namespace plansearch::calibrate {
namespace {

/// Shape of a point, in whole numbers.
struct Sizes {
  std::int64_t batch;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t length;
  std::int64_t head;
  cudnnDataType_t type;
  bool causal;
  bool backward;

  [[nodiscard]] TensorShape queries() const { return packed(batch, heads, length, head); }
  [[nodiscard]] TensorShape keys() const { return packed(batch, kv_heads, length, head); }
  [[nodiscard]] TensorShape scores() const { return packed(batch, heads, length, length); }
  [[nodiscard]] TensorShape rows() const { return packed(batch, heads, length, 1); }
};

Sizes sizes_of(const Point& point) {
  const std::string format = point.word("dtype");
  if (format != "bf16" && format != "fp16") throw Unmeasurable{"only attention of 16 bits"};
  const auto whole = [&](const char* name) {
    return static_cast<std::int64_t>(point.number(name));
  };
  return {whole("batch"),
          whole("heads"),
          whole("kv_heads"),
          whole("seq_len"),
          whole("head_dim"),
          format == "bf16" ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF,
          point.word("mask") != "full",
          point.word("direction") == "backward"};
}

/// Stored tensors, in the order of identifiers: bytes, or the place of a number given by value.
struct Stored {
  std::size_t bytes = 0;
  const float* value = nullptr;
};

/// A graph and what it reads and writes.
class AttentionGraph {
 public:
  AttentionGraph(const CudnnLibrary& cudnn, const Sizes& sizes)
      : sizes_(sizes), graph_(cudnn), scale_(1.0F / std::sqrt(static_cast<float>(sizes.head))) {
    if (sizes.backward) {
      backward();
    } else {
      forward();
    }
  }

  [[nodiscard]] CudnnGraph& graph() { return graph_; }
  [[nodiscard]] const std::vector<Stored>& stored() const { return stored_; }

 private:
  using Tensor = CudnnGraph::Tensor;

  Tensor kept(cudnnDataType_t type, const TensorShape& shape) {
    std::size_t bytes = type == CUDNN_DATA_FLOAT ? 4 : 2;
    for (const std::int64_t extent : shape.extents) bytes *= static_cast<std::size_t>(extent);
    stored_.push_back(
        {(bytes + kOperandAlignment - 1) / kOperandAlignment * kOperandAlignment, nullptr});
    return graph_.stored(type, shape);
  }
  Tensor number(const float* value) {
    stored_.push_back({0, value});
    return graph_.number();
  }
  Tensor scores(cudnnDataType_t type) { return graph_.between(type, sizes_.scores()); }
  Tensor rows() { return graph_.between(CUDNN_DATA_FLOAT, sizes_.rows()); }

  Tensor scaled_scores(Tensor queries, Tensor turned_keys, Tensor scale) {
    const Tensor plain = scores(CUDNN_DATA_FLOAT);
    graph_.product(queries, turned_keys, plain);
    const Tensor scaled = scores(CUDNN_DATA_FLOAT);
    graph_.pointwise(CUDNN_POINTWISE_MUL, plain, scale, scaled);
    return scaled;
  }

  /// Nothing above the diagonal.
  Tensor masked(Tensor all) {
    if (!sizes_.causal) return all;
    const Tensor nothing = number(&kNothing);
    const Tensor row = scores(CUDNN_DATA_INT32);
    const Tensor column = scores(CUDNN_DATA_INT32);
    const Tensor seen = scores(CUDNN_DATA_BOOLEAN);
    const Tensor masked = scores(CUDNN_DATA_FLOAT);
    graph_.index(all, 2, row);
    graph_.index(all, 3, column);
    graph_.pointwise(CUDNN_POINTWISE_CMP_GE, row, column, seen, CUDNN_DATA_BOOLEAN);
    graph_.pointwise(CUDNN_POINTWISE_BINARY_SELECT, all, nothing, masked, CUDNN_DATA_FLOAT, seen);
    return masked;
  }

  void forward() {
    const Tensor queries = kept(sizes_.type, sizes_.queries());
    const Tensor keys = kept(sizes_.type, turned(sizes_.keys()));
    const Tensor values = kept(sizes_.type, sizes_.keys());
    const Tensor context = kept(sizes_.type, sizes_.queries());
    const Tensor statistics = kept(CUDNN_DATA_FLOAT, sizes_.rows());
    const Tensor seen = masked(scaled_scores(queries, keys, number(&scale_)));
    const Tensor largest = rows();
    const Tensor less = scores(CUDNN_DATA_FLOAT);
    const Tensor powers = scores(CUDNN_DATA_FLOAT);
    const Tensor sum = rows();
    const Tensor logarithm = rows();
    const Tensor weights = scores(sizes_.type);
    graph_.reduce(CUDNN_REDUCE_TENSOR_MAX, seen, largest);
    graph_.pointwise(CUDNN_POINTWISE_SUB, seen, largest, less);
    graph_.pointwise(CUDNN_POINTWISE_EXP, less, nullptr, powers);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sum);
    graph_.pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, logarithm);
    graph_.pointwise(CUDNN_POINTWISE_ADD, largest, logarithm, statistics);
    graph_.pointwise(CUDNN_POINTWISE_DIV, powers, sum, weights);
    graph_.product(weights, values, context);
  }

  /// As cuDNN's own front end composes it (cudnn-frontend 1.x, CompositeSDPABackwardNode): other
  /// orders of the same arithmetic are taken too, and write where they should not.
  void backward() {
    const Tensor queries = kept(sizes_.type, sizes_.queries());
    const Tensor turned_keys = kept(sizes_.type, turned(sizes_.keys()));
    const Tensor turned_values = kept(sizes_.type, turned(sizes_.keys()));
    const Tensor context = kept(sizes_.type, sizes_.queries());
    const Tensor slope = kept(sizes_.type, sizes_.queries());
    const Tensor statistics = kept(CUDNN_DATA_FLOAT, sizes_.rows());
    const Tensor scale = number(&scale_);
    const Tensor own = row_sums(slope, context);
    // The weights again.
    const Tensor less = scores(CUDNN_DATA_FLOAT);
    const Tensor weights = scores(CUDNN_DATA_FLOAT);
    graph_.pointwise(CUDNN_POINTWISE_SUB, scaled_scores(queries, turned_keys, scale), statistics,
                     less);
    graph_.pointwise(CUDNN_POINTWISE_EXP, masked(less), nullptr, weights);
    key_gradient(weights, slope);
    // Their gradients, and what follows.
    const Tensor change = scores(CUDNN_DATA_FLOAT);
    const Tensor centred = scores(CUDNN_DATA_FLOAT);
    const Tensor weighted = scores(CUDNN_DATA_FLOAT);
    const Tensor score_slope = scores(CUDNN_DATA_FLOAT);
    graph_.product(slope, turned_values, change);
    graph_.pointwise(CUDNN_POINTWISE_SUB, change, own, centred);
    graph_.pointwise(CUDNN_POINTWISE_MUL, centred, weights, weighted);
    graph_.pointwise(CUDNN_POINTWISE_MUL, weighted, scale, score_slope);
    key_gradient(score_slope, queries);
    query_gradient(score_slope, turned_keys);
  }

  /// The sum of slope and context of every row, kept.
  Tensor row_sums(Tensor slope, Tensor context) {
    const Tensor both = graph_.between(CUDNN_DATA_FLOAT, sizes_.queries());
    const Tensor sum = rows();
    const Tensor own = kept(CUDNN_DATA_FLOAT, sizes_.rows());
    graph_.pointwise(CUDNN_POINTWISE_MUL, slope, context, both);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, both, sum);
    graph_.pointwise(CUDNN_POINTWISE_MUL, sum, number(&kOne), own);
    return own;
  }

  /// Gradient of keys or values: turned scores by rows, of every head, then summed over heads that
  /// share.
  void key_gradient(Tensor from, Tensor by) {
    const Tensor turned_scores = graph_.between(sizes_.type, turned(sizes_.scores()));
    graph_.reshape(from, turned_scores);
    if (sizes_.heads == sizes_.kv_heads) {
      graph_.product(turned_scores, by, kept(sizes_.type, sizes_.keys()));
      return;
    }
    const Tensor whole = graph_.between(sizes_.type, sizes_.queries());
    graph_.product(turned_scores, by, whole);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, whole, kept(sizes_.type, sizes_.keys()));
  }

  /// Summed in 32 bits.
  void query_gradient(Tensor score_slope, Tensor turned_keys) {
    const Tensor keys = graph_.between(sizes_.type, sizes_.keys());
    const Tensor sum = kept(CUDNN_DATA_FLOAT, sizes_.queries());
    graph_.reshape(turned_keys, keys);
    graph_.product(score_slope, keys, sum);
    graph_.pointwise(CUDNN_POINTWISE_IDENTITY, sum, nullptr, kept(sizes_.type, sizes_.queries()));
  }

  static constexpr float kNothing = -std::numeric_limits<float>::infinity();
  static constexpr float kOne = 1.0F;
  Sizes sizes_;
  CudnnGraph graph_;
  std::vector<Stored> stored_;
  float scale_;
};

class AttentionCall final : public DeviceCall {
 public:
  AttentionCall(const CudnnLibrary& cudnn, cudnnHandle_t handle, const CudaPlace& place,
                const Sizes& sizes)
      : cudnn_(cudnn),
        handle_(handle),
        attention_(cudnn, sizes),
        graph_(attention_.graph().finish(handle)),
        plan_(attention_.graph().plan(handle, graph_)),
        pack_(cudnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    std::size_t bytes = static_cast<std::size_t>(attention_.graph().workspace(plan_));
    const std::size_t workspace = bytes;
    for (const Stored& stored : attention_.stored()) bytes += stored.bytes;
    const auto type = sizes.type == CUDNN_DATA_HALF ? CUDA_R_16F : CUDA_R_16BF;
    // Keys and values turned lie in memory of their own: they are read as often.
    char* next = place.memory.filled(bytes, type);
    void* room = next;
    next += workspace;
    std::vector<void*> places;
    for (const Stored& stored : attention_.stored()) {
      places.push_back(stored.value != nullptr ? const_cast<float*>(stored.value)
                                               : static_cast<void*>(next));
      next += stored.bytes;
    }
    pack_.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, attention_.graph().identifiers());
    pack_.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
              static_cast<std::int64_t>(places.size()), places.data());
    pack_.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &room);
    pack_.finalize("operands");
  }

  void issue(cudaStream_t stream) override {
    if (stream != stream_ || !bound_) {
      cudnn_.check(cudnn_.set_stream(handle_, stream), "a stream");
      stream_ = stream;
      bound_ = true;
    }
    cudnn_.check(cudnn_.execute(handle_, plan_.get(), pack_.get()), "attention");
  }

 private:
  const CudnnLibrary& cudnn_;
  cudnnHandle_t handle_;
  AttentionGraph attention_;
  CudnnDescriptor graph_;
  CudnnDescriptor plan_;
  CudnnDescriptor pack_;
  cudaStream_t stream_ = nullptr;
  bool bound_ = false;
};

class CudnnAttention final : public FusedAttention {
 public:
  CudnnAttention() { cudnn_.check(cudnn_.create(&handle_), "a handle"); }
  ~CudnnAttention() override { static_cast<void>(cudnn_.destroy(handle_)); }

  [[nodiscard]] std::string version() const override { return fmt::format("{}", cudnn_.version()); }
  [[nodiscard]] std::unique_ptr<DeviceCall> prepare(const CudaPlace& place,
                                                    const Point& point) override {
    return std::make_unique<AttentionCall>(cudnn_, handle_, place, sizes_of(point));
  }

 private:
  CudnnLibrary cudnn_;
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace

std::unique_ptr<FusedAttention> make_attention() {
  return std::make_unique<CudnnAttention>();
}

void check_attention_graph(const Point& point) {
  const CudnnLibrary cudnn;
  AttentionGraph attention(cudnn, sizes_of(point));
  static_cast<void>(attention.graph().finish(nullptr));
}

}  // namespace plansearch::calibrate
