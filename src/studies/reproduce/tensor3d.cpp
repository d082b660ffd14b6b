// SPDX-License-Identifier: Apache-2.0
// Tensor3D: the volume of a grid, and the best grid of a tensor group, by closed form and by
// search.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "studies/reproduce/found_plan.hpp"
#include "studies/reproduce/gpt_question.hpp"
#include "studies/reproduce/reproduce.hpp"

namespace plansearch {
namespace {

constexpr const char* kPaper = "Singh et al., arXiv 2305.13525, communication model";

/// Elements a device sends per token and feature of one GPT block without recomputation, times the
/// devices: 2 [12 (in - 1) + 4 (out - 1)].
double volume(int out, int in) {
  return 2.0 * (12.0 * (in - 1) + 4.0 * (out - 1));
}

/// Best of all ways to cut a group in two; the published ones over Megatron's, all ranks in `out`.
struct BestGrid {
  int ranks;
  int out;
  int in;
  std::optional<double> over_megatron;
};

constexpr std::array<BestGrid, 7> kBest{{{4, 4, 1, 1.000},
                                         {8, 4, 2, 0.857},
                                         {16, 8, 2, 0.667},
                                         {32, 8, 4, 0.516},
                                         {64, 16, 4, 0.381},
                                         {12, 6, 2, {}},
                                         {48, 12, 4, {}}}};

/// A network whose messages decide: many heads, so that every grid divides them.
PlanDegrees found_grid(const BestGrid& grid, const StudyContext& context) {
  constexpr std::int64_t kBatch = 4;
  Problem problem = gpt_problem({.sizes = {4, 12288, 192, 2048},
                                 .hardware = ideal_machine("flat", context.data),
                                 .framework = "axonn",
                                 .precision = "bf16",
                                 .gpus = grid.ranks,
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

std::vector<ReproducedRow> tensor3d_rows(const StudyContext& context) {
  std::vector<ReproducedRow> rows;
  for (const BestGrid& grid : kBest) {
    const PlanDegrees own = found_grid(grid, context);
    const auto exact = [&](const char* axis, int published, int predicted) {
      rows.push_back({fmt::format("best grid of {} ranks on a flat network: {}", grid.ranks, axis),
                      "", static_cast<double>(published), static_cast<double>(predicted),
                      static_cast<double>(published), static_cast<double>(published), kPaper});
    };
    exact("out (y)", grid.out, own.tensor_out);
    exact("in (x)", grid.in, own.tensor_in);
    if (!grid.over_megatron) continue;
    const double over = volume(grid.out, grid.in) / volume(grid.ranks, 1);
    rows.push_back({fmt::format("volume of {} ranks over Megatron's", grid.ranks), "",
                    *grid.over_megatron, over, *grid.over_megatron - 6e-4,
                    *grid.over_megatron + 6e-4, kPaper});
  }
  for (const int ranks : {12, 48}) {
    // d/d(out) of 12 ranks / out + 4 out is zero at sqrt(3 ranks).
    rows.push_back({fmt::format("out of {} ranks, sqrt(3 G)", ranks), "", std::sqrt(3.0 * ranks),
                    static_cast<double>(found_grid({ranks, 1, 1, {}}, context).tensor_out),
                    std::sqrt(3.0 * ranks) - 1e-6, std::sqrt(3.0 * ranks) + 1e-6, kPaper});
  }
  return rows;
}

}  // namespace plansearch
