// SPDX-License-Identifier: Apache-2.0
// Questions about GPT networks that papers describe by a few sizes, and prices of single plans.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plansearch/problem.hpp"
#include "plansearch/problem_request.hpp"
#include "plansearch/search.hpp"
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

/// A machine without latencies and losses that ships with the studies: perlmutter, frontier, flat.
[[nodiscard]] std::string ideal_machine(std::string_view name, const ShippedData& data);

/// GPT-2 XL in fp16, 1,024 sequences a step on 64 GPUs, as Alpa's default runtime runs it.
[[nodiscard]] Problem gpt2_xl(const std::string& hardware, const ShippedData& data);

/// A network of validation/published/networks.csv.
[[nodiscard]] std::optional<GptSizes> find_gpt(std::string_view name, const ShippedData& data);
/// All of them whose name begins so, in the order of the file, without that.
[[nodiscard]] std::vector<std::pair<std::string, GptSizes>> gpts_of(std::string_view prefix,
                                                                    const ShippedData& data);

/// As the command line puts it, about a network of these sizes, or the one that is named; `frozen`
/// parameters are not trained, as in model files.
[[nodiscard]] Problem gpt_problem(ProblemRequest request, const std::optional<GptSizes>& sizes,
                                  const ShippedData& data,
                                  const std::vector<std::string>& frozen = {});

/// FLOPs of a step as Alpa counts them (alpa/util.py, compute_gpt_tflops): with recomputation of
/// every layer, the causal half of attention not taken off.
[[nodiscard]] double alpa_flops(const GptSizes& sizes, std::int64_t batch);

/// Estimate of a plan that may be too large for the machine.
[[nodiscard]] Estimate estimate_of(const PlanEvaluator& evaluator, const ParallelPlan& plan);

}  // namespace plansearch
