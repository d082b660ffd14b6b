// SPDX-License-Identifier: Apache-2.0
// Paths between layouts for derivations, and numbers of layouts: choices between
// placements meet the same few layouts of a tensor in many combinations. Not installed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "communication/redistribution/redistribution.hpp"

namespace plansearch {

/// One message of a path between two layouts.
struct PathStep {
  CommunicationKind kind = CommunicationKind::Slice;
  AxisSet axes;
  int group_size = 1;
  double elements = 0.0;
  double after = 0.0;   ///< elements that one device holds when it is over
  double length = 0.0;  ///< elements that one device sends, by their rates
};
using Path = std::vector<PathStep>;

/// A layout, and its number among those that are known to some `LayoutNumbers`; 0: none.
struct NumberedLayout {
  Layout layout;
  std::uint32_t number = 0;

  friend bool operator==(const NumberedLayout& a, const NumberedLayout& b) {
    if (a.number != 0 && b.number != 0) return a.number == b.number;
    return a.layout == b.layout;
  }
};

class LayoutNumbers {
 public:
  /// From 1; equal layouts get one number.
  [[nodiscard]] std::uint32_t number(const Layout& layout);

 private:
  std::unordered_map<std::string, std::uint32_t> layouts_;
};

/// The steps of a way as a derivation wants them.
void write_path(const std::vector<RedistributionStep>& steps, const TensorMove& move, Path& path);

}  // namespace plansearch
