// SPDX-License-Identifier: Apache-2.0
// Points of the probes gemm and stream on this processor, by a CBLAS library that is loaded at run
// time, and by loops.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "measure/calibrate/backend.hpp"

namespace plansearch::calibrate {

/// Numbers of every sign between -1 and 1: products of zeros run faster than those of a network.
class CpuBuffer {
 public:
  float* at_least(std::size_t count) {
    std::size_t filled = values_.size();
    if (filled < count) values_.resize(count);
    for (; filled < values_.size(); ++filled) {
      state_ ^= state_ << 13U;
      state_ ^= state_ >> 7U;
      state_ ^= state_ << 17U;
      values_[filled] = static_cast<float>(static_cast<std::int32_t>(state_ >> 32U)) / 2147483648.F;
    }
    return values_.data();
  }

 private:
  std::vector<float> values_;
  std::uint64_t state_ = 88172645463325252ULL;
};

/// The cblas_sgemm of every CBLAS: row-major is 101, no transposition 111, transposition 112.
using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                       float alpha, const float* a, int lda, const float* b, int ldb, float beta,
                       float* c, int ldc);

struct Blas {
  Sgemm sgemm = nullptr;
  std::string name;  ///< as the library says, else its file
  int threads = 1;
};

/// $PLANSEARCH_BLAS, else the first of MKL, OpenBLAS, BLIS and the reference library, else loops of
/// our own under their own name. Threads above 0 are set where the library takes them.
[[nodiscard]] Blas load_blas(int threads);

/// Context of every point: the library, how operands move on, where they lie.
struct CpuPlace {
  const Blas& blas;
  int threads;
  Rotation rotation;
  CpuBuffer& read;
  CpuBuffer& written;
};

[[nodiscard]] std::unique_ptr<Trial> cpu_product(const CpuPlace& place, const Point& point);
[[nodiscard]] std::unique_ptr<Trial> cpu_pass(const CpuPlace& place, const Point& point);

/// Calls one after the other, on the clock of this processor.
template <typename Call>
[[nodiscard]] std::unique_ptr<Trial> clocked(Call call) {
  return trial_of([call = std::move(call)](int calls) mutable {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) static_cast<void>(call());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
}

/// Elements of a matrix.
[[nodiscard]] inline std::size_t area(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

}  // namespace plansearch::calibrate
