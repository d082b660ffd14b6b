// SPDX-License-Identifier: Apache-2.0
// Matrix products by loops, for machines without a CBLAS library. Compiled for speed whatever the
// build is for.
#pragma once

namespace plansearch::calibrate {

/// As cblas_sgemm, row-major.
void plain_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                 const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);

}  // namespace plansearch::calibrate
