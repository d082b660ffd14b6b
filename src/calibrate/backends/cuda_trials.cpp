// SPDX-License-Identifier: Apache-2.0
#include "calibrate/backends/cuda_trials.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "calibrate/backends/cuda_kernels.hpp"

namespace plansearch::calibrate {
namespace {

constexpr std::size_t kWorkspace = std::size_t{64} << 20U;

/// A format of products: type of the operands, of the sums, and what its elements look like.
struct FormatRow {
  std::string_view name;
  cudaDataType_t type;
  cublasComputeType_t compute;
  int least_capability;
};
constexpr std::array kFormats{FormatRow{"bf16", CUDA_R_16BF, CUBLAS_COMPUTE_32F, 80},
                              FormatRow{"fp16", CUDA_R_16F, CUBLAS_COMPUTE_32F, 70},
                              FormatRow{"tf32", CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 80},
                              FormatRow{"fp32", CUDA_R_32F, CUBLAS_COMPUTE_32F, 0}};

const FormatRow& format_named(const std::string& name) {
  for (const FormatRow& row : kFormats) {
    if (row.name == name) return row;
  }
  throw Unmeasurable{fmt::format("no products of {} here", name)};
}

/// Calls between two events.
class TimedTrial : public Trial {
 public:
  explicit TimedTrial(const CudaLibrary& cuda) : cuda_(cuda) {
    cuda_.check(cuda_.event_create(&begin_), "an event");
    cuda_.check(cuda_.event_create(&end_), "an event");
  }

  double run(int calls) override {
    constexpr double kMilli = 1e-3;
    cuda_.check(cuda_.event_record(begin_, nullptr), "an event");
    for (int call = 0; call < calls; ++call) call_once();
    cuda_.check(cuda_.event_record(end_, nullptr), "an event");
    cuda_.check(cuda_.event_wait(end_), "a call");
    float milliseconds = 0.0F;
    cuda_.check(cuda_.event_elapsed(&milliseconds, begin_, end_), "an event");
    return kMilli * static_cast<double>(milliseconds);
  }

 protected:
  virtual void call_once() = 0;
  const CudaLibrary& cuda_;

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

/// Row-major C = A B is column-major C' = B' A': the second operand comes first.
class MatmulTrial final : public TimedTrial {
 public:
  MatmulTrial(const CudaPlace& place, cublasLtHandle_t blas, const Point& point)
      : TimedTrial(place.cuda), blas_(blas), rotation_(place.rotation) {
    const FormatRow& format = format_named(point.word("dtype"));
    element_ = format.type == CUDA_R_32F ? 4 : 2;
    m_ = whole(point, "m");
    n_ = whole(point, "n");
    k_ = whole(point, "k");
    batch_ = whole(point, "batch");
    CudaLibrary::check(cuda_.matmul_create(&product_, format.compute, CUDA_R_32F), "a product");
    const bool a_turned = point.word("layout") == "tn";
    const bool b_turned = point.word("layout") == "nt";
    turn(CUBLASLT_MATMUL_DESC_TRANSA, b_turned);
    turn(CUBLASLT_MATMUL_DESC_TRANSB, a_turned);
    first_ = b_turned ? layout(format.type, k_, n_) : layout(format.type, n_, k_);
    second_ = a_turned ? layout(format.type, m_, k_) : layout(format.type, k_, m_);
    result_ = layout(format.type, n_, m_);
    set_bytes_ = static_cast<std::size_t>(batch_ * (m_ * k_ + k_ * n_ + m_ * n_)) * element_;
    set_bytes_ = (set_bytes_ + 255) / 256 * 256;
    start_ = place.memory.filled(set_bytes_ * rotation_.sets() + kWorkspace, format.type);
    choose();
  }
  ~MatmulTrial() override {
    for (cublasLtMatrixLayout_t layout : {first_, second_, result_}) cuda_.layout_destroy(layout);
    cuda_.matmul_destroy(product_);
  }
  MatmulTrial(const MatmulTrial&) = delete;
  MatmulTrial& operator=(const MatmulTrial&) = delete;

 private:
  static std::int64_t whole(const Point& point, std::string_view name) {
    return static_cast<std::int64_t>(point.number(name));
  }

  void turn(cublasLtMatmulDescAttributes_t which, bool turned) {
    const cublasOperation_t operation = turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    CudaLibrary::check(cuda_.matmul_set(product_, which, &operation, sizeof operation),
                       "a product");
  }

  cublasLtMatrixLayout_t layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
    cublasLtMatrixLayout_t made = nullptr;
    CudaLibrary::check(cuda_.layout_create(&made, type, static_cast<std::uint64_t>(rows),
                                           static_cast<std::uint64_t>(columns), rows),
                       "a matrix");
    if (batch_ == 1) return made;
    const auto count = static_cast<std::int32_t>(batch_);
    const std::int64_t stride = rows * columns;
    CudaLibrary::check(
        cuda_.layout_set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "a batch");
    CudaLibrary::check(
        cuda_.layout_set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
        "a batch");
    return made;
  }

  void choose() {
    cublasLtMatmulPreference_t preference = nullptr;
    CudaLibrary::check(cuda_.preference_create(&preference), "a preference");
    const std::size_t workspace = kWorkspace;
    CudaLibrary::check(cuda_.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                            &workspace, sizeof workspace),
                       "a preference");
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t result = cuda_.heuristic(blas_, product_, first_, second_, result_,
                                                  result_, preference, 1, &found, &count);
    cuda_.preference_destroy(preference);
    CudaLibrary::check(result, "no kernel for this product");
    if (count == 0) throw Unmeasurable{"no kernel for this product"};
    kernel_ = found.algo;
  }

  void call_once() override {
    const float one = 1.0F;
    const float zero = 0.0F;
    char* set = start_ + kWorkspace + rotation_.next() * set_bytes_;
    char* a = set;
    char* b = a + static_cast<std::size_t>(batch_ * m_ * k_) * element_;
    char* c = b + static_cast<std::size_t>(batch_ * k_ * n_) * element_;
    CudaLibrary::check(cuda_.matmul(blas_, product_, &one, b, first_, a, second_, &zero, c, result_,
                                    c, result_, &kernel_, start_, kWorkspace, nullptr),
                       "a product");
  }

  cublasLtHandle_t blas_;
  Rotation rotation_;
  std::size_t element_ = 4;
  std::int64_t m_ = 1;
  std::int64_t n_ = 1;
  std::int64_t k_ = 1;
  std::int64_t batch_ = 1;
  std::size_t set_bytes_ = 0;
  char* start_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr;
  cublasLtMatrixLayout_t second_ = nullptr;
  cublasLtMatrixLayout_t result_ = nullptr;
  cublasLtMatmulAlgo_t kernel_{};
};

class CopyTrial final : public TimedTrial {
 public:
  CopyTrial(const CudaPlace& place, char* to, const char* from, std::size_t bytes,
            std::size_t stride)
      : TimedTrial(place.cuda),
        to_(to),
        from_(from),
        bytes_(bytes),
        stride_(stride),
        rotation_(place.rotation) {}

 private:
  void call_once() override {
    const std::size_t set = rotation_.next() * stride_;
    cuda_.check(cuda_.copy(to_ + set, from_ + set, bytes_, cudaMemcpyDefault, nullptr), "a copy");
  }

  char* to_;
  const char* from_;
  std::size_t bytes_;
  std::size_t stride_;
  Rotation rotation_;
};

class PassTrial final : public TimedTrial {
 public:
  PassTrial(const CudaPlace& place, CUfunction kernel, const StreamPass& pass, double bytes,
            unsigned blocks)
      : TimedTrial(place.cuda), kernel_(kernel), blocks_(blocks), rotation_(place.rotation) {
    count_ = static_cast<unsigned long long>(bytes) / sizeof(float) /
             static_cast<unsigned long long>(pass.reads + pass.writes);
    reads_ = static_cast<std::size_t>(pass.reads > 2 ? pass.reads - pass.writes : pass.reads);
    set_ = (reads_ + static_cast<std::size_t>(pass.writes)) * count_ * sizeof(float);
    start_ = place.memory.filled(set_ * rotation_.sets(), CUDA_R_32F);
  }

 private:
  void call_once() override {
    const char* read = start_ + rotation_.next() * set_;
    const char* written = read + reads_ * count_ * sizeof(float);
    unsigned long long count = count_;
    unsigned long long stride = count_;
    std::array<void*, 4> arguments{&read, &written, &count, &stride};
    CudaLibrary::check(cuda_.launch(kernel_, blocks_, 1, 1, kCudaThreads, 1, 1, 0, nullptr,
                                    arguments.data(), nullptr),
                       "a pass over memory");
  }

  CUfunction kernel_;
  unsigned blocks_;
  Rotation rotation_;
  unsigned long long count_ = 0;
  std::size_t reads_ = 0;
  std::size_t set_ = 0;
  char* start_ = nullptr;
};

}  // namespace

std::vector<std::string> cuda_formats(int capability) {
  std::vector<std::string> known;
  for (const FormatRow& row : kFormats) {
    if (capability >= row.least_capability) known.emplace_back(row.name);
  }
  return known;
}

std::unique_ptr<Trial> product_trial(const CudaPlace& place, cublasLtHandle_t blas,
                                     const Point& point) {
  return std::make_unique<MatmulTrial>(place, blas, point);
}

std::unique_ptr<Trial> copy_trial(const CudaPlace& place, char* to, const char* from,
                                  std::size_t bytes, std::size_t stride) {
  return std::make_unique<CopyTrial>(place, to, from, bytes, stride);
}

std::unique_ptr<Trial> pass_trial(const CudaPlace& place, CUfunction kernel, const StreamPass& pass,
                                  double bytes, unsigned blocks) {
  return std::make_unique<PassTrial>(place, kernel, pass, bytes, blocks);
}

}  // namespace plansearch::calibrate
