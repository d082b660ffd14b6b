// SPDX-License-Identifier: Apache-2.0
// Two layouts of plain cuts with the names of axes taken away: what a search for the steps between
// them reads. Not installed.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "communication/slices/layout.hpp"
#include "plansearch/communication_kind.hpp"

namespace plansearch {

/// The cuts of one dimension: numbers of units from 1, one byte each, the outermost first.
class LayoutCuts {
 public:
  static constexpr int kMost = 8;

  [[nodiscard]] int size() const { return (static_cast<int>(std::bit_width(bytes_)) + 7) / 8; }
  [[nodiscard]] bool full() const { return size() == kMost; }
  /// The unit of a cut, from 0.
  [[nodiscard]] int operator[](int place) const {
    return static_cast<int>(bytes_ >> (8 * place) & 0xFFU) - 1;
  }
  void push_back(int unit) {
    bytes_ |= (std::uint64_t{1} + static_cast<unsigned>(unit)) << (8 * size());
  }
  [[nodiscard]] LayoutCuts first(int count) const {
    return count == kMost ? *this : LayoutCuts(bytes_ & ((std::uint64_t{1} << (8 * count)) - 1));
  }
  /// How many cuts both begin with.
  [[nodiscard]] int common(const LayoutCuts& other) const {
    const int same = std::countr_zero(bytes_ ^ other.bytes_) / 8;
    return std::min({same, size(), other.size()});
  }
  /// One bit per unit, from the place on.
  [[nodiscard]] std::uint32_t units(int from = 0) const {
    std::uint32_t bits = 0;
    for (std::uint64_t rest = from == kMost ? 0 : bytes_ >> (8 * from); rest != 0; rest >>= 8U) {
      bits |= 1U << ((rest & 0xFFU) - 1U);
    }
    return bits;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  bool operator==(const LayoutCuts&) const = default;

  LayoutCuts() = default;

 private:
  explicit LayoutCuts(std::uint64_t bytes) : bytes_(bytes) {}
  std::uint64_t bytes_ = 0;
};

/// A layout on the way. Cuts that both ends begin with are left out.
struct LayoutState {
  std::array<LayoutCuts, kMaxTensorRank> dims{};
  std::uint32_t partial = 0;  ///< one bit per unit
  bool operator==(const LayoutState&) const = default;
  /// Units that cut it, one bit each.
  [[nodiscard]] std::uint32_t cut_units() const {
    std::uint32_t all = 0;
    for (const LayoutCuts& cuts : dims) all |= cuts.units();
    return all;
  }
  [[nodiscard]] std::size_t hash() const {
    std::uint64_t sum = partial;
    for (const LayoutCuts& cuts : dims) {
      sum = (sum ^ cuts.bytes()) * 0x9E3779B97F4A7C15ULL;
      sum ^= sum >> 29U;
    }
    return static_cast<std::size_t>(sum);
  }
};

/// One step, without its sizes.
struct PathMove {
  CommunicationKind kind = CommunicationKind::Slice;
  std::int8_t from_dim = -1;  ///< none where a permutation rearranges cuts
  std::int8_t to_dim = -1;
  std::uint32_t units = 0;  ///< one bit each
};

/// And the layout that it leads to.
struct LayoutStep {
  PathMove move;
  LayoutState after;
};

/// New numbers by unit.
using UnitNames = std::array<std::uint8_t, 8>;

/// Units are digits, or factors of one tensor group that are side by side at both ends, or what
/// holds parts.
struct RedistributionPattern {
  static constexpr std::size_t kMostUnits = 31;
  std::size_t rank = 0;  ///< dimensions that differ
  LayoutState start;
  LayoutState goal;
  std::size_t units = 0;
  std::array<int, kMostUnits> pieces{};
  std::array<int, kMostUnits> ranks{};
  std::array<int, kMostUnits> goal_dim{};             ///< the dimension a unit cuts there; -1: none
  std::array<std::uint32_t, kMostUnits> same_axes{};  ///< units that cannot cut beside it
  std::uint32_t full = 0;                             ///< units with as many slices as ranks
  std::uint32_t factors = 0;                          ///< units of a tensor group
  std::uint32_t taken = 0;                            ///< units along axes of shared cuts
  FixedVector<std::uint8_t, kMostUnits> parts;        ///< units of parts, in the order of axes
  int flat = 1;                                       ///< slices of the flat cut
  double elements = 1.0;  ///< of a tile at the start, as only its ratio to others matters
  int start_slices = 1;

  /// Elements of one device.
  [[nodiscard]] double local_elements(const LayoutState& state) const;
  [[nodiscard]] int slices(LayoutCuts cuts) const {
    int product = 1;
    for (int i = 0; i < cuts.size(); ++i) product *= pieces[static_cast<std::size_t>(cuts[i])];
    return product;
  }
  /// Product over some units.
  [[nodiscard]] int product(const std::array<int, kMostUnits>& of, std::uint32_t some) const;
  /// A permutation says itself what it leads to.
  [[nodiscard]] LayoutState after(LayoutState state, const PathMove& move) const;
  /// Ranks and elements of a step, as RedistributionStep has them.
  [[nodiscard]] int group_size(const PathMove& move) const;
  [[nodiscard]] double message(const PathMove& move, double local) const;
  /// No path from a layout to the goal on which cuts and parts go to where the goal has them sends
  /// less, in elements and charges per step.
  [[nodiscard]] double least_left(const LayoutState& state, double charge) const;
  /// Writes the pattern as bytes. False where tiles may be rounded individually.
  [[nodiscard]] bool key(std::string& bytes) const;
};

}  // namespace plansearch
