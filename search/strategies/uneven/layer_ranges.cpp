// SPDX-License-Identifier: Apache-2.0
#include "search/strategies/uneven/layer_ranges.hpp"

#include <cstdint>
#include <map>
#include <utility>

#include "plan/stages/expand.hpp"

namespace plansearch {

LayerRanges::LayerRanges(const std::vector<std::vector<BlockRun>>& pieces)
    : layers_(static_cast<int>(pieces.size())) {
  numbers_.assign(pieces.size() * pieces.size(), -1);
  std::map<std::vector<std::pair<std::size_t, std::int64_t>>, int> known;
  for (std::size_t first = 0; first < pieces.size(); ++first) {
    std::vector<BlockRun> runs;
    for (std::size_t last = first; last < pieces.size(); ++last) {
      runs.insert(runs.end(), pieces[last].begin(), pieces[last].end());
      runs = joined(runs);
      std::vector<std::pair<std::size_t, std::int64_t>> key;
      for (const BlockRun& run : runs) key.emplace_back(run.block, run.count);
      const auto [place, is_new] = known.try_emplace(std::move(key), size());
      if (is_new) runs_.push_back(runs);
      numbers_[first * pieces.size() + last] = place->second;
    }
  }
}

}  // namespace plansearch
