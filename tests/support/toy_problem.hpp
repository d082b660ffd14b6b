// SPDX-License-Identifier: Apache-2.0
// Small complete problems for tests of the evaluator and the search; no shipped file is read.
#pragma once

#include <cstdint>

#include "plansearch/problem.hpp"

namespace plansearch::test {

struct ToyOptions {
  std::int64_t layers = 8;
  std::int64_t hidden = 1024;
  std::int64_t heads = 16;
  std::int64_t seq_len = 512;
  int gpus = 16;
  std::int64_t global_batch = 32;
  double memory_gib = 80;
  bool tied = true;
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  std::int64_t experts = 0;   ///< 0: a dense MLP
  std::int64_t top_k = 2;
  double imbalance = 1.0;
};

/// 4 nodes of 8 A100-like accelerators, a Megatron-like framework and a GPT.
[[nodiscard]] Problem toy_problem(const ToyOptions& options = {});
[[nodiscard]] Framework toy_framework();
/// Four layers on 16 accelerators, and a framework that runs operators in steps over squares.
[[nodiscard]] Problem squares_problem();

}  // namespace plansearch::test
