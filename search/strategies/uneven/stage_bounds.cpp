// SPDX-License-Identifier: Apache-2.0
// Computes: G(k, d) = min over the stage k..j on n devices of max(B t, t + c + G(j + 1, d - n)).
// Source: head and work of the order's bound (schedule/simulation/closed_form.hpp), written as a
//         recursion.
// Assumes: nothing of memory; messages as if stages that could share a node did.
// Units: seconds.
// Checked by: tests/unit/search/uneven_search_test.cpp
#include "search/strategies/uneven/stage_bounds.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/parallel.hpp"

namespace plansearch {
namespace {

const Seconds kNever(std::numeric_limits<double>::infinity());

}  // namespace

StageBounds::StageBounds(const StageCatalog& catalog, int devices, int threads)
    : catalog_(catalog), devices_(devices) {
  from_.assign(index(0, catalog.layers() + 1, 0), kNever);
  behind_ = from_;
  for (int layout = 0; layout < catalog.layouts(); ++layout) {
    behind_[index(layout, catalog.layers(), 0)] = Seconds(0);
  }
  for (int first = catalog.layers() - 1; first >= 0; --first) {
    parallel_for(static_cast<std::size_t>(devices), threads, [&](std::size_t d) {
      for (int layout = 0; layout < catalog_.layouts(); ++layout) {
        const auto used = static_cast<int>(d) + 1;
        from_[index(layout, first, used)] = from(layout, first, used);
      }
    });
    if (first == 0) break;
    parallel_for(static_cast<std::size_t>(devices), threads,
                 [&](std::size_t d) { fill_behind(first, static_cast<int>(d) + 1); });
  }
}

Seconds StageBounds::from(int layout, int first, int devices) const {
  const int left = devices - catalog_.devices_of(layout);
  Seconds best = kNever;
  if (left < 0) return best;
  for (int last = first; last < catalog_.layers(); ++last) {
    const Seconds rest = behind(layout, last + 1, left);
    if (rest == kNever) continue;
    for (const PricedStage& stage : catalog_.stages(first, last, layout)) {
      best = std::min(best, with_rest(stage.price.both(), catalog_.order().micro_batches, rest));
    }
  }
  return best;
}

void StageBounds::fill_behind(int first, int devices) {
  std::vector<std::pair<Seconds, int>> rests;  // of the layouts behind, the least first
  for (int next = 0; next < catalog_.layouts(); ++next) {
    const Seconds rest = from_[index(next, first, devices)];
    if (rest != kNever) rests.emplace_back(rest, next);
  }
  std::sort(rests.begin(), rests.end());
  for (int layout = 0; layout < catalog_.layouts(); ++layout) {
    if (catalog_.devices_of(layout) + devices > devices_) continue;
    Seconds& known = behind_[index(layout, first, devices)];
    for (const auto& [rest, next] : rests) {
      if (rest >= known) break;
      const StageTransfer way = catalog_.transfer(layout, next, first - 1);
      known = std::min(known, way.activation + way.gradient + rest);
    }
  }
}

Seconds StageBounds::any(int first, int devices) const {
  Seconds best = kNever;
  for (int layout = 0; layout < catalog_.layouts(); ++layout) {
    best = std::min(best, from_[index(layout, first, devices)]);
  }
  return best;
}

}  // namespace plansearch
