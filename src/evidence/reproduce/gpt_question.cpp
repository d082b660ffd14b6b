// SPDX-License-Identifier: Apache-2.0
#include "evidence/reproduce/gpt_question.hpp"

#include <fmt/format.h>

#include <memory>

#include "io/tables/csv.hpp"
#include "plansearch/error.hpp"
#include "plansearch/load_problem.hpp"

namespace plansearch {

std::string ideal_machine(std::string_view name, const ShippedData& data) {
  return (data.directory() / "validation" / "reproduce" / fmt::format("ideal-{}.yaml", name))
      .string();
}

Problem gpt2_xl(const std::string& hardware, const ShippedData& data) {
  return load_problem({.hardware = hardware,
                       .model = "gpt2-xl",
                       .framework = "alpa",
                       .gpus = 64,
                       .batch = 1024,
                       .precision = "fp16"},
                      data)
      .problem;
}

std::vector<std::pair<std::string, GptSizes>> gpts_of(std::string_view prefix,
                                                      const ShippedData& data) {
  const auto table =
      io::CsvTable::read(data.directory() / "validation" / "published" / "networks.csv");
  std::vector<std::pair<std::string, GptSizes>> networks;
  for (const io::CsvRow& row : table.rows()) {
    const std::string& name = table.text(row, "name");
    if (!name.starts_with(prefix)) continue;
    const auto size = [&](const char* column) { return table.integer(row, column, 1).value(); };
    networks.emplace_back(
        name.substr(prefix.size()),
        GptSizes{size("layers"), size("hidden"), size("heads"), size("seq_len"), size("vocab")});
  }
  return networks;
}

std::optional<GptSizes> find_gpt(std::string_view name, const ShippedData& data) {
  for (const auto& [known, sizes] : gpts_of("", data)) {
    if (known == name) return sizes;
  }
  return std::nullopt;
}

Problem gpt_problem(ProblemRequest request, const std::optional<GptSizes>& network,
                    const ShippedData& data, const std::vector<std::string>& frozen) {
  if (!network) return load_problem(request, data).problem;
  const GptSizes& sizes = *network;
  request.model = "gpt3-175b";  // of which the sizes are changed
  request.seq_len = sizes.seq_len;
  ProblemFiles files = read_problem_files(request, data);
  ShippedModel model = *files.model;
  ModelDescription& gpt = model.description;
  gpt.name = "gpt";
  gpt.layers = sizes.layers;
  gpt.hidden = sizes.hidden;
  gpt.attention.heads = gpt.attention.kv_heads = sizes.heads;
  gpt.attention.head_size = sizes.hidden / sizes.heads;
  gpt.mlp.width = 4 * sizes.hidden;
  gpt.embedding.vocab = sizes.vocab;
  gpt.training.seq_len = sizes.seq_len;
  gpt.training.frozen = frozen;
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

Estimate estimate_of(const PlanEvaluator& evaluator, const ParallelPlan& plan) {
  const Evaluation evaluation = evaluator.evaluate(plan);
  if (const auto* estimate = std::get_if<Estimate>(&evaluation)) return *estimate;
  const auto& beyond = std::get<InfeasiblePlan>(evaluation);
  PLANSEARCH_CHECK(beyond.estimate.has_value());
  return *beyond.estimate;
}

}  // namespace plansearch
