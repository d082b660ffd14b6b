// SPDX-License-Identifier: Apache-2.0
// The least time that the rest of a pipeline takes, from any layer on.
#pragma once

#include <vector>

#include "search/strategies/uneven/stage_catalog.hpp"

namespace plansearch {

/// Bounds of the time from the first input of a stage to the end of its last backward, over all
/// ways to run the layers from it on. Admissible for every order that does not split the backward
/// pass.
class StageBounds {
 public:
  StageBounds(const StageCatalog& catalog, int devices, int threads);

  /// Of the layers from `first` on over so many devices, whatever the first stage.
  [[nodiscard]] Seconds any(int first, int devices) const;
  /// The same behind a stage of a layout, messages included. Zero where nothing is left,
  /// infinite where it cannot be placed.
  [[nodiscard]] Seconds behind(int layout, int first, int devices) const {
    return behind_[index(layout, first, devices)];
  }

 private:
  [[nodiscard]] std::size_t index(int layout, int first, int devices) const {
    const auto of = [](int value) { return static_cast<std::size_t>(value); };
    return (of(first) * (of(devices_) + 1) + of(devices)) * of(catalog_.layouts()) + of(layout);
  }
  void fill_behind(int first, int devices);
  [[nodiscard]] Seconds from(int layout, int first, int devices) const;

  const StageCatalog& catalog_;
  int devices_;
  std::vector<Seconds> from_;    ///< the first stage has this layout
  std::vector<Seconds> behind_;  ///< a stage of this layout goes before it
};

}  // namespace plansearch
