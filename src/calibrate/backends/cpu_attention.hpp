// SPDX-License-Identifier: Apache-2.0
// Causal attention on this processor, a block of queries at a time as fused kernels do.
#pragma once

#include <memory>
#include <vector>

#include "calibrate/backends/cpu_trials.hpp"

namespace plansearch::calibrate {

/// One head: rows of `size` features, scores scaled by 1 / sqrt(size), every query looks at the
/// keys up to its own place (at all of them where `causal` is false).
struct HeadShape {
  int length = 0;
  int size = 0;
  bool causal = true;
};

struct HeadInput {
  const float* queries;
  const float* keys;
  const float* values;
};

/// Room for the scores of one block of queries against all keys.
class AttentionScratch {
 public:
  void hold(const HeadShape& shape);
  float* scores() { return scores_.data(); }
  float* slopes() { return slopes_.data(); }

 private:
  std::vector<float> scores_;
  std::vector<float> slopes_;
};

/// context (length x size) = softmax(queries keys' / sqrt(size)) values.
void attention_forward(const Blas& blas, const HeadShape& shape, const HeadInput& input,
                       float* context, AttentionScratch& scratch);

/// Sums that backward adds to: gradients of queries, keys and values.
struct HeadGradients {
  float* queries;
  float* keys;
  float* values;
};
/// From the gradient of the context; scores are made again.
void attention_backward(const Blas& blas, const HeadShape& shape, const HeadInput& input,
                        const float* context, const float* slope, const HeadGradients& gradients,
                        AttentionScratch& scratch);

/// Heads one after the other; the products use the threads of the library. Throws Unmeasurable for
/// other formats than fp32.
[[nodiscard]] std::unique_ptr<Trial> cpu_attention(const CpuPlace& place, const Point& point);

}  // namespace plansearch::calibrate
