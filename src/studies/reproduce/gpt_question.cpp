// SPDX-License-Identifier: Apache-2.0
#include "studies/reproduce/gpt_question.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "plansearch/error.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch {

std::string ideal_machine(std::string_view name, const ShippedData& data) {
  return (data.directory() / "validation" / "reproduce" / fmt::format("ideal-{}.yaml", name))
      .string();
}

Problem gpt2_xl(const std::string& hardware, const ShippedData& data) {
  ProblemRequest request;
  request.hardware = hardware;
  request.model = "gpt2-xl";
  request.framework = "alpa";
  request.precision = "fp16";
  request.gpus = 64;
  request.batch = 1024;
  return load_problem(request, data).problem;
}

Problem gpt_problem(const GptQuestion& question, const ShippedData& data) {
  ProblemRequest request;
  request.hardware = question.hardware;
  request.model = "gpt3-175b";  // of which the sizes are changed
  request.framework = question.framework;
  request.precision = question.precision;
  request.gpus = question.gpus;
  request.batch = question.batch;
  request.seq_len = question.sizes.seq_len;
  ProblemFiles files = read_problem_files(request, data);
  ShippedModel model = *files.model;
  ModelDescription& gpt = model.description;
  const GptSizes& sizes = question.sizes;
  gpt.name = "gpt";
  gpt.layers = sizes.layers;
  gpt.hidden = sizes.hidden;
  gpt.attention.heads = gpt.attention.kv_heads = sizes.heads;
  gpt.attention.head_size = sizes.hidden / sizes.heads;
  gpt.mlp.width = 4 * sizes.hidden;
  gpt.embedding.vocab = sizes.vocab;
  gpt.training.seq_len = sizes.seq_len;
  gpt.training.frozen = question.frozen;
  files.model = std::make_shared<const ShippedModel>(std::move(model));
  return resolve_question(request, files).problem;
}

double alpa_flops(const GptSizes& sizes, std::int64_t batch) {
  const auto layers = static_cast<double>(sizes.layers);
  const auto hidden = static_cast<double>(sizes.hidden);
  const auto tokens = static_cast<double>(batch * sizes.seq_len);
  const auto sequence = static_cast<double>(sizes.seq_len);
  return 96.0 * tokens * hidden * hidden * layers * (1.0 + sequence / (6.0 * hidden)) +
         6.0 * tokens * hidden * static_cast<double>(sizes.vocab);
}

std::optional<PlanCandidate> fastest_plan(const PlanEvaluator& evaluator, std::string_view space,
                                          const PinnedDegrees& pinned, int threads) {
  const auto made = make_space(space, evaluator.problem(), pinned);
  const auto* plans = std::get_if<SearchSpace>(&made);
  if (plans == nullptr) return std::nullopt;
  SearchOptions options;
  options.top = 1;
  options.threads = threads;
  const SearchResult result = search(evaluator, *plans, options);
  check_stop();
  if (result.ranked.empty()) return std::nullopt;
  return result.ranked.front();
}

Estimate estimate_of(const PlanEvaluator& evaluator, const ParallelPlan& plan) {
  const Evaluation evaluation = evaluator.evaluate(plan);
  if (const auto* estimate = std::get_if<Estimate>(&evaluation)) return *estimate;
  const auto& beyond = std::get<InfeasiblePlan>(evaluation);
  PLANSEARCH_CHECK(beyond.estimate.has_value());
  return *beyond.estimate;
}

}  // namespace plansearch
