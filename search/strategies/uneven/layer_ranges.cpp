// SPDX-License-Identifier: Apache-2.0
#include "search/strategies/uneven/layer_ranges.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "plan/stages/expand.hpp"
#include "plan/stages/group_edges.hpp"

namespace plansearch {

LayerRanges::LayerRanges(const std::vector<std::vector<BlockRun>>& pieces, const Network& network,
                         SkipRoute skips)
    : layers_(static_cast<int>(pieces.size())) {
  numbers_.assign(pieces.size() * pieces.size(), -1);
  const std::vector<SharedTensor> tensors = shared_tensors(network);
  using Runs = std::vector<std::pair<std::size_t, std::int64_t>>;
  std::map<Runs, std::vector<std::pair<GroupEdges, int>>> known;
  std::int64_t position = 0;
  for (std::size_t first = 0; first < pieces.size(); ++first) {
    std::vector<BlockRun> runs;
    for (std::size_t last = first; last < pieces.size(); ++last) {
      runs.insert(runs.end(), pieces[last].begin(), pieces[last].end());
      runs = joined(runs);
      Runs key;
      for (const BlockRun& run : runs) key.emplace_back(run.block, run.count);
      const GroupEdges edges = group_edges(network, tensors, runs, position, skips);
      auto& alike = known[std::move(key)];
      auto same = std::find_if(alike.begin(), alike.end(),
                               [&](const auto& other) { return other.first == edges; });
      if (same == alike.end()) {
        same = alike.insert(same, {edges, size()});
        runs_.push_back({runs, position});
      }
      numbers_[first * pieces.size() + last] = same->second;
    }
    position += copies_of(pieces[first]);
  }
}

}  // namespace plansearch
