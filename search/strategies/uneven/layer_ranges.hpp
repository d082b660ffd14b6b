// SPDX-License-Identifier: Apache-2.0
// The runs of blocks that consecutive layers hold: layers that repeat make many ranges alike.
#pragma once

#include <cstddef>
#include <vector>

#include "evaluate/step/stage_price.hpp"

namespace plansearch {

class LayerRanges {
 public:
  /// Of layers, or of groups of them (stage_forms.hpp, layer_runs): all of the network.
  LayerRanges(const std::vector<std::vector<BlockRun>>& pieces, const Network& network,
              SkipRoute skips);

  [[nodiscard]] int layers() const { return layers_; }
  /// How many ranges hold something of their own.
  [[nodiscard]] int size() const { return static_cast<int>(runs_.size()); }
  /// Of layers first .. last, with what belongs to them: 0 .. size() - 1, equal for equal runs to
  /// which edges are the same.
  [[nodiscard]] int number(int first, int last) const {
    return numbers_[static_cast<std::size_t>(first) * static_cast<std::size_t>(layers_) +
                    static_cast<std::size_t>(last)];
  }
  [[nodiscard]] const PlacedRuns& runs(int number) const {
    return runs_[static_cast<std::size_t>(number)];
  }

 private:
  int layers_ = 0;
  std::vector<int> numbers_;  ///< by first and last layer
  std::vector<PlacedRuns> runs_;
};

}  // namespace plansearch
