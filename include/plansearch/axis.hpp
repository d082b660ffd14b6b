// SPDX-License-Identifier: Apache-2.0
// The axes of a device mesh by the role they play, sets of axes and short ordered lists of axes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "plansearch/fixed_vector.hpp"

namespace plansearch {

/// Axes by the role they play, not by a paper's letters. A dense and an expert grid are two views
/// of the same ranks: (In, Out, Depth, Context, Data) and (ExpertTensor, Expert, ExpertData).
enum class Axis : std::uint8_t {
  In,       ///< contraction of the first matmul of a pair (AxoNN: forward all-reduce)
  Out,      ///< Megatron's tensor parallelism (AxoNN: backward all-reduce)
  Depth,    ///< weight shard and batch (AxoNN's z)
  Context,  ///< sequence
  Data,     ///< replicas over the batch
  Pipeline,
  ExpertTensor,
  Expert,
  ExpertData,
  Shard,    ///< the part of Data that shares one copy (hybrid shard); a view of Data
  Replica,  ///< the rest of Data: Data = Replica x Shard
  // The factors of Out, innermost first, where a plan says for single operators how they are cut
  // (plansearch/placements.hpp); views of Out, of one rank in all other plans.
  Factor0,
  Factor1,
  Factor2,
  Factor3,
  Factor4,
  Factor5,
  Factor6,
  Factor7,
};
inline constexpr std::size_t kRoleCount = 11;  ///< axes other than factors
inline constexpr std::size_t kMostFactors = 8;
inline constexpr std::size_t kAxisCount = kRoleCount + kMostFactors;
[[nodiscard]] constexpr Axis factor_axis(std::size_t number) {
  return static_cast<Axis>(kRoleCount + number);
}
[[nodiscard]] std::string_view to_text(Axis axis);
/// The name users know it by: "tensor" for Out, the only tensor axis most plans have.
[[nodiscard]] std::string_view spoken_name(Axis axis);
/// Roles only: a factor has no place in a rank order.
[[nodiscard]] std::optional<Axis> parse_axis(std::string_view text);

/// A set of axes, one bit each.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) insert(axis);
  }
  constexpr void insert(Axis axis) { bits_ |= bit(axis); }
  constexpr void erase(Axis axis) { bits_ &= ~bit(axis); }
  [[nodiscard]] constexpr bool contains(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr int count() const { return std::popcount(bits_); }
  /// The axis with the smallest number; the set must not be empty.
  [[nodiscard]] constexpr Axis front() const { return static_cast<Axis>(std::countr_zero(bits_)); }
  [[nodiscard]] constexpr std::uint32_t bits() const { return bits_; }

  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) { return of(a.bits_ | b.bits_); }
  friend constexpr AxisSet operator&(AxisSet a, AxisSet b) { return of(a.bits_ & b.bits_); }
  friend constexpr AxisSet operator-(AxisSet a, AxisSet b) { return of(a.bits_ & ~b.bits_); }
  constexpr bool operator==(const AxisSet&) const = default;

 private:
  static constexpr std::uint32_t bit(Axis axis) { return 1U << static_cast<unsigned>(axis); }
  static constexpr AxisSet of(std::uint32_t bits) {
    AxisSet set;
    set.bits_ = bits;
    return set;
  }
  std::uint32_t bits_ = 0;
};

inline constexpr AxisSet kFactorAxes{Axis::Factor0, Axis::Factor1, Axis::Factor2, Axis::Factor3,
                                     Axis::Factor4, Axis::Factor5, Axis::Factor6, Axis::Factor7};
/// Axes over which devices share the matrix products of one token.
inline constexpr AxisSet kTensorAxes = AxisSet{Axis::In, Axis::Out} | kFactorAxes;

/// Calls `visit` for every axis of the set, smallest number first.
template <typename Visit>
constexpr void for_each_axis(AxisSet axes, Visit visit) {
  while (!axes.empty()) {
    const Axis axis = axes.front();
    axes.erase(axis);
    visit(axis);
  }
}

/// Axes in order, the outermost (slowest) first.
using AxisList = FixedVector<Axis, 4>;

/// The words users know the axes of a group by: "context+data".
[[nodiscard]] std::string spoken_name(AxisSet axes);
/// "data,context", in the order of the enumeration.
[[nodiscard]] std::string to_text(AxisSet axes);

}  // namespace plansearch
