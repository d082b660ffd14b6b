// SPDX-License-Identifier: Apache-2.0
// A CBLAS library of this machine, loaded at run time.
#pragma once

#include <string>

namespace plansearch::calibrate {

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

}  // namespace plansearch::calibrate
