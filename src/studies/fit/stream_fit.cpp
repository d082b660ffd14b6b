// SPDX-License-Identifier: Apache-2.0
// Computes: the share of memory bandwidth that passes over memory reach, and their launch.
// Source: least squares of studies/fit/curve_fit on cost/kernels/compute_cost (stream_time).
// Assumes: copies, element-wise passes, norms and optimizer updates run at one rate.
// Units: logarithms of ratios; seconds.
// Checked by: tests/unit/studies/stream_fit_test.cpp
#include "studies/fit/stream_fit.hpp"

#include <cmath>

#include "studies/fit/kernel_group.hpp"

namespace plansearch {

void fit_streams(const std::vector<KernelTable>& tables, const SitePopulation& population,
                 Carried carried, KernelFit& fit) {
  const Cluster base = fit.cluster;
  KernelSample sample;
  for (const KernelTable& table : tables) {
    if (table.kind != TableKind::Stream) continue;
    sample.add(
        table, base, [](const KernelRow&) { return true; }, fit.unused);
  }
  if (sample.measured().empty()) return;
  const auto apply = [&](std::span<const double> logs) {
    Cluster cluster = base;
    StreamCurve& stream = cluster.accelerator.kernels.stream;
    stream.efficiency = moved_share(stream.efficiency, logs[0]);
    stream.launch *= std::exp(logs[1]);
    return cluster;
  };
  GroupFit found = fit_group({"stream", sample, 2, apply, usual_scatter(std::nullopt, base),
                              population.between, kOtherLinks, carried});
  fit.cluster = apply(found.curve.moved);
  const StreamCurve& before = base.accelerator.kernels.stream;
  const StreamCurve& after = fit.cluster.accelerator.kernels.stream;
  const std::vector<double>& spread = found.curve.spread;
  found.group.changes = {
      {"stream", "efficiency", "", before.efficiency, after.efficiency, spread[0]},
      {"stream", "launch", "s", before.launch.value(), after.launch.value(), spread[1]}};
  fit.groups.push_back(std::move(found.group));
}

}  // namespace plansearch
