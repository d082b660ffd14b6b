// SPDX-License-Identifier: Apache-2.0
#include "studies/reproduce/derived_grid.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "plansearch/degree_table.hpp"
#include "plansearch/plan_report.hpp"

namespace plansearch {
namespace {

/// Not part of the closed forms: norms and biases.
constexpr std::array<std::string_view, 4> kBeside{"statistics", ".bias", "norm1.", "norm2."};

bool is_product(const PricedCommunication& line) {
  return std::none_of(kBeside.begin(), kBeside.end(), [&](std::string_view word) {
    return line.what.find(word) != std::string::npos;
  });
}

/// Launches and skew are no part of a closed form; neither is what hides what.
Problem bare(Problem problem, DataType reduction) {
  Framework framework = *problem.framework;
  FrameworkConstants& c = framework.constants;
  c.collective_call = c.collective_rank = Seconds(0);
  c.collective_skew = c.collective_skew_across_nodes = Seconds(0);
  framework.precision[problem.precision].reduction = reduction;
  problem.framework = std::make_shared<const Framework>(std::move(framework));
  return problem;
}

double moved_seconds(const PlanEvaluator& evaluator, const PlanDegrees& plan, bool over_data) {
  const auto workspace = PlanEvaluator::make_workspace();
  double sum = 0.0;
  for (const PricedCommunication& line : plan_details(evaluator, plan, *workspace).communication) {
    if (line.communication.axes.contains(Axis::Data) != over_data || !is_product(line)) continue;
    sum += line.time.value() * line.count;
  }
  return sum;
}

}  // namespace

double DerivedGrid::Pair::layers(const PlanDegrees& plan, bool over_data) const {
  return moved_seconds(*twice, plan, over_data) - moved_seconds(*once, plan, over_data);
}

DerivedGrid::DerivedGrid(const Question& question, const ShippedData& data)
    : batch_(question.batch) {
  const auto evaluator = [&](std::int64_t layers, DataType reduction) {
    GptSizes sizes = question.sizes;
    sizes.layers = layers;
    const Problem problem = gpt_problem({.sizes = sizes,
                                         .hardware = question.hardware,
                                         .framework = "axonn",
                                         .precision = "bf16",
                                         .gpus = question.gpus,
                                         .batch = question.batch,
                                         .frozen = {"*norm*", "*.bias"}},
                                        data);
    keeps_gathered_ = problem.framework->sharding.depth_gather != Scope::Use;
    return std::make_unique<PlanEvaluator>(bare(problem, reduction));
  };
  const auto pair = [&](DataType reduction) {
    const std::int64_t layers = question.sizes.layers;
    return Pair{evaluator(layers, reduction), evaluator(2 * layers, reduction)};
  };
  narrow_ = pair(DataType::Bf16);
  wide_ = pair(DataType::Fp32);
}

std::optional<double> DerivedGrid::seconds(const TensorGrid& grid, Recompute recompute) const {
  PlanDegrees plan;
  plan.tensor_out = grid.out;
  plan.tensor_in = grid.in;
  plan.tensor_depth = grid.depth;
  plan.data = grid.data;
  plan.micro_batch = static_cast<int>(batch_ / (std::int64_t{1} * grid.data * grid.depth));
  plan.recompute = recompute;
  if (narrow_.once->legality(plan)) return std::nullopt;
  return narrow_.layers(plan, false) + wide_.layers(plan, true);
}

}  // namespace plansearch
