// SPDX-License-Identifier: Apache-2.0
// Sources of the stream probe's passes for CUDA; arrays lie as those of cpu_loops.hpp.
#pragma once

namespace plansearch::calibrate {

inline constexpr int kCudaThreads = 256;

/// Every pass has the arguments (read, written, count, stride); norm takes one row of 1,024 a
/// block.
inline constexpr const char* kCudaPasses = R"(
extern "C" __global__ void pass_nothing() {}
extern "C" __global__ void pass_elementwise(const float* read, float* written, unsigned long long count,
                                       unsigned long long stride) {
  unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += step) {
    written[i] = read[i] * read[i + stride] + read[i];
  }
}
extern "C" __global__ void pass_norm(const float* read, float* written, unsigned long long count,
                                unsigned long long stride) {
  __shared__ float sums[256];
  for (unsigned long long row = blockIdx.x; (row + 1) * 1024 <= count; row += gridDim.x) {
    const float* from = read + row * 1024;
    float own[4];
    float sum = 0.0f;
    for (int i = 0; i < 4; ++i) {
      own[i] = from[threadIdx.x + 256 * i];
      sum += own[i] * own[i];
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
      if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
      __syncthreads();
    }
    float scale = rsqrtf(sums[0] / 1024.0f + 1e-5f);
    for (int i = 0; i < 4; ++i) written[row * 1024 + threadIdx.x + 256 * i] = own[i] * scale;
    __syncthreads();
  }
}
extern "C" __global__ void pass_optimizer(const float* read, float* written, unsigned long long count,
                                     unsigned long long stride) {
  unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += step) {
    float gradient = read[i];
    float first = 0.9f * written[i + stride] + 0.1f * gradient;
    float second = 0.999f * fabsf(written[i + 2 * stride]) + 0.001f * gradient * gradient;
    written[i + stride] = first;
    written[i + 2 * stride] = second;
    written[i] -= 1e-4f * first / (sqrtf(second) + 1e-8f);
  }
}
)";

}  // namespace plansearch::calibrate
