// SPDX-License-Identifier: Apache-2.0
// Questions about GPT networks that papers describe by a few sizes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/problem.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

/// Biases everywhere, learned positions, tied embeddings, 4 x hidden wide, as GPT-2 and GPT-3.
struct GptSizes {
  std::int64_t layers = 1;
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  std::int64_t seq_len = 1024;
  std::int64_t vocab = 51200;
};

struct GptQuestion {
  GptSizes sizes;
  std::string hardware;
  std::string framework = "megatron";
  std::string precision = "fp16";
  int gpus = 1;
  std::int64_t batch = 1;
  std::vector<std::string> frozen{};  ///< parameters that are not trained, as in model files
};

/// A machine without latencies and losses that ships with the studies: perlmutter, frontier, flat.
[[nodiscard]] std::string ideal_machine(std::string_view name, const ShippedData& data);

[[nodiscard]] Problem gpt_problem(const GptQuestion& question, const ShippedData& data);

/// FLOPs of a step as Alpa counts them (alpa/util.py, compute_gpt_tflops): with recomputation of
/// every layer, the causal half of attention not taken off.
[[nodiscard]] double alpa_flops(const GptSizes& sizes, std::int64_t batch);

}  // namespace plansearch
