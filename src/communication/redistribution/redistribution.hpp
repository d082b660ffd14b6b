// SPDX-License-Identifier: Apache-2.0
// From one layout to another on the same mesh: the cheapest sequence of steps, as a path with
// lengths, and numbers of layouts: choices between placements meet the same few layouts of a tensor
// in many combinations.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "communication/redistribution/step_rates.hpp"
#include "communication/slices/layout.hpp"
#include "plansearch/communication_kind.hpp"

namespace plansearch {

/// `elements`: the full message, nccl-tests convention. All-gather: what one rank ends with;
/// reduce-scatter and all-reduce: what one rank starts with; all-to-all, permute and
/// send/receive: what one rank holds and sends.
struct RedistributionStep {
  CommunicationKind kind = CommunicationKind::Slice;
  AxisSet axes;
  int group_size = 1;
  double elements = 0.0;
  Layout result;  ///< the layout after the step
  bool operator==(const RedistributionStep&) const = default;
};

/// Every sequence of steps is tried in tensor groups of so many factors: 16 devices, if each is
/// two. In groups of more each cut goes straight to where the goal has it.
inline constexpr int kTriedFactors = 4;
[[nodiscard]] bool tries_all(const DeviceMesh& mesh);

/// Whether what was found is kept for very many pairs of layouts, all at the same rates: those that
/// differ only in the names of axes have one path.
enum class Remember : std::uint8_t { No, Yes };

/// Buffers that one thread keeps from one search to the next, or several in turn.
class RedistributionScratch;
using RedistributionScratchPtr = std::shared_ptr<RedistributionScratch>;
[[nodiscard]] RedistributionScratchPtr make_redistribution_scratch(
    Remember remember = Remember::No);
/// Buffers of their own that share with others what was found of all layouts of few units.
[[nodiscard]] RedistributionScratchPtr make_redistribution_scratch(
    const RedistributionScratch& other);

/// Elements one device sends with the ring or pairwise algorithm.
[[nodiscard]] double elements_moved(CommunicationKind kind, int group_size, double elements);

/// A tensor of these extents in two layouts of one mesh. `to.partial` must be a subset of
/// `from.partial`, and neither has a flat cut (see TensorPolicy for those). All outlive the move.
struct TensorMove {
  const DeviceMesh& mesh;
  std::span<const double> extents;
  const Layout& from;
  const Layout& to;
  const StepRates* rates = nullptr;  ///< without: 1 per element moved, over any links
};

/// The cheapest sequence of steps: elements moved at their rates, plus a small charge per step.
/// Empty when the layouts are equal. `steps` loses what it held: no allocation once the buffers have
/// grown.
void redistribute(const TensorMove& move, RedistributionScratch& scratch,
                  std::vector<RedistributionStep>& steps);

/// One message of a resharding path between two layouts.
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
