// SPDX-License-Identifier: Apache-2.0
// Computes: the distinct contents of the virtual stages of a pipeline.
// Source: plan/layer_distribution.hpp (the framework's rule).
// Assumes: the plan is legal.
// Units: copies of blocks.
// Checked by: tests/unit/evaluate/pipeline_layout_test.cpp
#include "evaluate/pipeline_layout.hpp"

#include <algorithm>
#include <variant>

#include "plan/layer_distribution.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

PipelineLayout make_layout(const Problem& problem, const PlanDegrees& plan) {
  const auto distribution = distribute_layers(*problem.network, plan, *problem.framework);
  const auto* runs = std::get_if<StageRuns>(&distribution);
  PLANSEARCH_CHECK(runs != nullptr);
  PipelineLayout layout;
  layout.stages = plan.pipeline;
  layout.chunks = plan.chunks;
  for (const std::vector<BlockRun>& stage : *runs) {
    std::vector<double> copies(problem.network->blocks.size(), 0.0);
    for (const BlockRun& run : stage) copies[run.block] += static_cast<double>(run.count);
    const auto known = std::find(layout.contents.begin(), layout.contents.end(), copies);
    layout.content_of.push_back(static_cast<int>(known - layout.contents.begin()));
    if (known == layout.contents.end()) layout.contents.push_back(std::move(copies));
  }
  return layout;
}

}  // namespace

const PipelineLayout& LayoutCache::get(const PlanDegrees& plan) const {
  const std::lock_guard lock(mutex_);
  auto& slot = layouts_[{plan.pipeline, plan.chunks}];
  if (!slot) slot = std::make_unique<const PipelineLayout>(make_layout(problem_, plan));
  return *slot;
}

}  // namespace plansearch
