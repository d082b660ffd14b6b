// SPDX-License-Identifier: Apache-2.0
// Questions about the layers of one tensor group.
#pragma once

#include <doctest/doctest.h>

#include "plan/stages/layer_distribution.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/problem.hpp"

namespace plansearch::test {

/// Tensor groups of so many ranks, side by side over all GPUs.
[[nodiscard]] inline PlanDegrees tensor_groups(const Problem& problem, int tensor,
                                               int micro_batch) {
  PlanDegrees degrees;
  degrees.tensor_out = tensor;
  degrees.micro_batch = micro_batch;
  degrees.data = problem.gpus / tensor;
  degrees.micro_batches =
      static_cast<int>(problem.global_batch / degrees.data / degrees.micro_batch);
  return degrees;
}

/// The first block of layers.
[[nodiscard]] inline std::size_t layer_block(const Network& network) {
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    if (is_layer(network.blocks[b].kind)) return b;
  }
  FAIL("no layers");
  return 0;
}

}  // namespace plansearch::test
