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
};
inline constexpr std::size_t kAxisCount = 11;
[[nodiscard]] std::string_view to_text(Axis axis);
/// The name users know it by: "tensor" for Out, the only tensor axis most plans have.
[[nodiscard]] std::string_view spoken_name(Axis axis);
[[nodiscard]] std::optional<Axis> parse_axis(std::string_view text);

/// A set of axes, one bit each.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) insert(axis);
  }
  constexpr void insert(Axis axis) { bits_ = static_cast<std::uint16_t>(bits_ | bit(axis)); }
  constexpr void erase(Axis axis) { bits_ = static_cast<std::uint16_t>(bits_ & ~bit(axis)); }
  [[nodiscard]] constexpr bool contains(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr int count() const { return std::popcount(bits_); }
  /// The axis with the smallest number; the set must not be empty.
  [[nodiscard]] constexpr Axis front() const { return static_cast<Axis>(std::countr_zero(bits_)); }
  [[nodiscard]] constexpr std::uint16_t bits() const { return bits_; }

  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) { return of(a.bits_ | b.bits_); }
  friend constexpr AxisSet operator&(AxisSet a, AxisSet b) { return of(a.bits_ & b.bits_); }
  friend constexpr AxisSet operator-(AxisSet a, AxisSet b) { return of(a.bits_ & ~b.bits_); }
  constexpr bool operator==(const AxisSet&) const = default;

 private:
  static constexpr std::uint16_t bit(Axis axis) {
    return static_cast<std::uint16_t>(1U << static_cast<unsigned>(axis));
  }
  static constexpr AxisSet of(int bits) {
    AxisSet set;
    set.bits_ = static_cast<std::uint16_t>(bits);
    return set;
  }
  std::uint16_t bits_ = 0;
};

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
