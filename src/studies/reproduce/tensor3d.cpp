// SPDX-License-Identifier: Apache-2.0
// Tensor3D: the volume of a grid, and the best grid of a tensor group, by closed form and by
// search.
#include <fmt/format.h>

#include "studies/reproduce/gpt_question.hpp"
#include "studies/reproduce/reproduce.hpp"

namespace plansearch {
namespace {

/// Elements a device sends per token and feature of one GPT block without recomputation, times the
/// devices: 2 [12 (in - 1) + 4 (out - 1)].
double volume(int out, int in) {
  return 2.0 * (12.0 * (in - 1) + 4.0 * (out - 1));
}

/// A network whose messages decide: many heads, so that every grid divides them.
PlanDegrees found_grid(int ranks, const StudyContext& context) {
  constexpr std::int64_t kBatch = 4;
  Problem problem = gpt_problem({.sizes = {4, 12288, 192, 2048},
                                 .hardware = ideal_machine("flat", context.data),
                                 .framework = "axonn",
                                 .precision = "bf16",
                                 .gpus = ranks,
                                 .batch = kBatch},
                                context.data);
  Framework framework = *problem.framework;
  framework.overlap = {};  // volumes know no overlap
  problem.framework = std::make_shared<const Framework>(std::move(framework));
  const PlanEvaluator evaluator(std::move(problem));
  const PinnedDegrees pinned{{Degree::Data, 1},
                             {Degree::TensorDepth, 1},
                             {Degree::MicroBatch, static_cast<int>(kBatch)},
                             {Degree::Recompute, static_cast<int>(Recompute::None)}};
  const auto best = fastest_plan(evaluator, "axonn", pinned, context.threads);
  return best ? best->plan : PlanDegrees{};
}

}  // namespace

void add_tensor3d(const StudyContext& context, Figures& figures) {
  for (const int ranks : {4, 8, 16, 32, 64, 12, 48}) {
    const PlanDegrees own = found_grid(ranks, context);
    const auto id = [&](const char* what) { return fmt::format("{} {}", ranks, what); };
    figures.add(id("out"), own.tensor_out);
    figures.add(id("in"), own.tensor_in);
    if (!figures.has(id("volume"))) continue;
    const auto published = [&](const char* axis) {
      return static_cast<int>(figures.published(id(axis)));
    };
    figures.add(id("volume"), volume(published("out"), published("in")) / volume(ranks, 1));
  }
  // d/d(out) of 12 ranks / out + 4 out is zero at sqrt(3 ranks).
  for (const int ranks : {12, 48}) {
    figures.add(fmt::format("{} root", ranks), found_grid(ranks, context).tensor_out);
  }
}

}  // namespace plansearch
