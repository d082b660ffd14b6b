// SPDX-License-Identifier: Apache-2.0
// Computes: share and step time of the runs of a fabric's slow mode.
// Source: several hundred runs on one fabric, some of which take a second, longer time that no
//         setting explains (docs/validation.md, "Slow mode").
// Assumes: every slot of a pipeline (a micro-batch on a stage) waits once per neighbouring stage,
//          however many chunks the stage has (none of the runs had several); between measured
//          numbers of nodes the share follows their logarithm, beyond them it stays.
// Units: seconds; shares of runs.
// Checked by: tests/unit/evaluate/slow_mode_test.cpp
#include <algorithm>
#include <cmath>
#include <variant>

#include "plansearch/plan_report.hpp"

namespace plansearch {
namespace {

double share_on(const SlowMode& mode, double nodes) {
  const auto above = std::find_if(mode.shares.begin(), mode.shares.end(),
                                  [&](const SlowShare& s) { return s.nodes >= nodes; });
  if (above == mode.shares.end()) return mode.shares.back().share;
  if (above == mode.shares.begin()) return above->share;
  const SlowShare& below = *(above - 1);
  const double part = std::log(nodes / below.nodes) / std::log(above->nodes / below.nodes);
  return below.share + part * (above->share - below.share);
}

}  // namespace

std::optional<SlowRuns> slow_runs(const Cluster& cluster, const PlanDegrees& plan, int devices) {
  if (plan.pipeline == 1) return std::nullopt;
  for (const LinkTier& tier : cluster.tiers) {
    const auto* fabric = std::get_if<FabricCurve>(&tier.curve);
    if (fabric == nullptr || !fabric->slow_mode) continue;
    const SlowMode& mode = *fabric->slow_mode;
    const double nodes = static_cast<double>(devices) / cluster.accelerators_per_node;
    const double slots = static_cast<double>(plan.micro_batches) + plan.pipeline - 1;
    const double neighbours = std::min(2, plan.pipeline - 1);
    return SlowRuns{fabric->name, share_on(mode, nodes), mode.excess * (slots * neighbours)};
  }
  return std::nullopt;
}

}  // namespace plansearch
