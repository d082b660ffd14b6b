// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt, with the kernel that its heuristic takes first.
#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "measure/calibrate/backends/cuda_calls.hpp"

namespace plansearch::calibrate {
namespace {

constexpr std::size_t kWorkspace = std::size_t{64} << 20U;

// As cublasLt.h of CUDA 12.9 and library_types.h of 12.8 number them: older headers lack some.
constexpr auto kE4m3 = static_cast<cudaDataType_t>(28);
constexpr auto kE2m1 = static_cast<cudaDataType_t>(33);
constexpr auto kScaleModeFirst = static_cast<cublasLtMatmulDescAttributes_t>(31);
constexpr auto kScaleModeSecond = static_cast<cublasLtMatmulDescAttributes_t>(32);

/// How operands are scaled: whole matrices, so many elements along the sum, or square blocks.
enum class Scaling : std::int32_t {
  None = -1,
  Matrix = 0,
  Sixteen = 1,
  ThirtyTwo = 2,
  Row128 = 4,
  Block128 = 5
};

/// A format of products: its operands, sums and factors.
struct FormatRow {
  std::string_view name;
  cudaDataType_t type;
  cublasComputeType_t compute;
  std::size_t bits;
  int least_capability;
  int most_capability;
  Scaling weights = Scaling::None;
  Scaling activations = Scaling::None;
  std::uint32_t one = 0;  ///< four bytes of factors of one
};
constexpr int kAny = 1000;
constexpr std::uint32_t kFloatOne = 0x3F800000;
constexpr std::array kFormats{
    FormatRow{"bf16", CUDA_R_16BF, CUBLAS_COMPUTE_32F, 16, 80, kAny},
    FormatRow{"fp16", CUDA_R_16F, CUBLAS_COMPUTE_32F, 16, 70, kAny},
    FormatRow{"tf32", CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 32, 80, kAny},
    FormatRow{"fp32", CUDA_R_32F, CUBLAS_COMPUTE_32F, 32, 0, kAny},
    FormatRow{"fp8", kE4m3, CUBLAS_COMPUTE_32F, 8, 89, kAny, Scaling::Matrix, Scaling::Matrix,
              kFloatOne},
    // As DeepSeek-V3 scales: weights by blocks, activations by rows; only Hopper has the kernels.
    FormatRow{"fp8_block", kE4m3, CUBLAS_COMPUTE_32F, 8, 90, 90, Scaling::Block128, Scaling::Row128,
              kFloatOne},
    FormatRow{"mxfp8", kE4m3, CUBLAS_COMPUTE_32F, 8, 100, kAny, Scaling::ThirtyTwo,
              Scaling::ThirtyTwo, 0x7F7F7F7F},
    FormatRow{"nvfp4", kE2m1, CUBLAS_COMPUTE_32F, 4, 100, kAny, Scaling::Sixteen, Scaling::Sixteen,
              0x38383838}};

const FormatRow& format_named(const std::string& name) {
  for (const FormatRow& row : kFormats) {
    if (row.name == name) return row;
  }
  throw Unmeasurable{fmt::format("no products of {} here", name)};
}

std::size_t aligned(std::size_t bytes) {
  return (bytes + kOperandAlignment - 1) / kOperandAlignment * kOperandAlignment;
}

/// Row-major C = A B is column-major C' = B' A': the second operand comes first.
class ProductCall final : public DeviceCall {
 public:
  ProductCall(const CudaPlace& place, DeviceMemory& scales, cublasLtHandle_t blas,
              const Point& point)
      : cuda_(place.cuda), blas_(blas), rotation_(place.rotation) {
    const FormatRow& format = format_named(point.word("dtype"));
    m_ = whole(point, "m");
    n_ = whole(point, "n");
    k_ = whole(point, "k");
    batch_ = whole(point, "batch");
    CudaLibrary::check(cuda_.matmul_create(&product_, format.compute, CUDA_R_32F), "a product");
    const bool a_turned = point.word("layout") == "tn";
    const bool b_turned = point.word("layout") == "nt";
    turn(CUBLASLT_MATMUL_DESC_TRANSA, b_turned);
    turn(CUBLASLT_MATMUL_DESC_TRANSB, a_turned);
    const bool small = format.bits < 16;
    if (small) scale(format, scales);
    first_ = b_turned ? layout(format.type, k_, n_) : layout(format.type, n_, k_);
    second_ = a_turned ? layout(format.type, m_, k_) : layout(format.type, k_, m_);
    result_ = layout(small ? CUDA_R_16BF : format.type, n_, m_);
    a_bytes_ = bytes_of(m_ * k_, format.bits);
    b_bytes_ = bytes_of(k_ * n_, format.bits);
    set_bytes_ = a_bytes_ + b_bytes_ + bytes_of(m_ * n_, small ? 16 : format.bits);
    start_ = place.memory.filled(set_bytes_ * rotation_.sets() + kWorkspace, format.type);
    choose();
  }
  ~ProductCall() override {
    for (cublasLtMatrixLayout_t layout : {first_, second_, result_}) cuda_.layout_destroy(layout);
    cuda_.matmul_destroy(product_);
  }

  void issue(cudaStream_t stream) override {
    const float one = 1.0F;
    const float zero = 0.0F;
    char* a = start_ + kWorkspace + rotation_.next() * set_bytes_;
    char* b = a + a_bytes_;
    char* c = b + b_bytes_;
    CudaLibrary::check(cuda_.matmul(blas_, product_, &one, b, first_, a, second_, &zero, c, result_,
                                    c, result_, &kernel_, start_, kWorkspace, stream),
                       "a product");
  }

 private:
  static std::int64_t whole(const Point& point, std::string_view name) {
    return static_cast<std::int64_t>(point.number(name));
  }

  [[nodiscard]] std::size_t bytes_of(std::int64_t elements, std::size_t bits) const {
    return aligned(static_cast<std::size_t>(batch_ * elements) * bits / 8);
  }

  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t which, Value value) {
    CudaLibrary::check(cuda_.matmul_set(product_, which, &value, sizeof value), "a product");
  }

  void turn(cublasLtMatmulDescAttributes_t which, bool turned) {
    set(which, turned ? CUBLAS_OP_T : CUBLAS_OP_N);
  }

  /// Factors of one for both operands; enough of them for the finest blocks.
  void scale(const FormatRow& format, DeviceMemory& scales) {
    constexpr std::int64_t kRows = 128;
    constexpr std::int64_t kFinest = 16;
    constexpr std::int64_t kBytes = 4;
    const auto size = [&](std::int64_t rows) {
      return aligned(static_cast<std::size_t>((rows + kRows) * (k_ / kFinest + kBytes) * kBytes));
    };
    char* factors = scales.constant(size(n_) + size(m_), format.one);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<void*>(factors));
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<void*>(factors + size(n_)));
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
    if (format.weights == Scaling::Matrix) return;
    set(kScaleModeFirst, static_cast<std::int32_t>(format.weights));
    set(kScaleModeSecond, static_cast<std::int32_t>(format.activations));
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

  const CudaLibrary& cuda_;
  cublasLtHandle_t blas_;
  Rotation rotation_;
  std::int64_t m_ = 1;
  std::int64_t n_ = 1;
  std::int64_t k_ = 1;
  std::int64_t batch_ = 1;
  std::size_t a_bytes_ = 0;
  std::size_t b_bytes_ = 0;
  std::size_t set_bytes_ = 0;
  char* start_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr;
  cublasLtMatrixLayout_t second_ = nullptr;
  cublasLtMatrixLayout_t result_ = nullptr;
  cublasLtMatmulAlgo_t kernel_{};
};

}  // namespace

std::vector<std::string> cuda_formats(int capability) {
  std::vector<std::string> known;
  for (const FormatRow& row : kFormats) {
    const bool runs = capability >= row.least_capability && capability <= row.most_capability;
    if (runs) known.emplace_back(row.name);
  }
  return known;
}

std::unique_ptr<DeviceCall> product_call(const CudaPlace& place, DeviceMemory& scales,
                                         cublasLtHandle_t blas, const Point& point) {
  return std::make_unique<ProductCall>(place, scales, blas, point);
}

}  // namespace plansearch::calibrate
