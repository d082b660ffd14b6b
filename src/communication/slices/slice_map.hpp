// SPDX-License-Identifier: Apache-2.0
// Which slice of a dimension a device works on, and when.
//
//   slice = (sum of a_i * coordinate_i + b * t + d * [the last step] + k) mod s
//
// in mixed radix: a map is a list of such digits, most significant first. No digit: the dimension
// is whole on every device (replicated). One plain digit (one axis, coefficient 1): sharded. Time
// coefficients give rings and PrimePar's primitive. Over the bits of a device number a digit has a
// term for every bit of a row and of a column: eight for a square of 16 x 16.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "plansearch/axis.hpp"
#include "plansearch/device_mesh.hpp"
#include "plansearch/fixed_vector.hpp"

namespace plansearch {

/// The three products of training that an operator stands for.
enum class OperatorPhase : std::uint8_t { Forward, InputGradient, WeightGradient };
inline constexpr std::size_t kOperatorPhaseCount = 3;

/// The place of a device: its coordinate on every axis.
using Coordinates = std::array<int, kAxisCount>;

struct SliceTerm {
  Axis axis = Axis::In;
  std::int8_t coefficient = 0;
  bool operator==(const SliceTerm&) const = default;
};

inline constexpr std::size_t kMostTerms = 8;
using SliceTerms = FixedVector<SliceTerm, kMostTerms>;

struct SliceDigit {
  std::int32_t modulus = 1;  ///< s; smaller than the axis: the slices repeat along it
  SliceTerms terms;
  std::int8_t time = 0;     ///< b
  std::int8_t last = 0;     ///< d
  std::int16_t offset = 0;  ///< k
  std::int16_t period = 1;  ///< steps for which t stays: those of the squares nested inside

  [[nodiscard]] int evaluate(const Coordinates& device, int step, int steps) const;
  [[nodiscard]] AxisSet axes() const;
  [[nodiscard]] bool varies() const { return time != 0 || last != 0; }
  /// Whether a device comes by every slice in so many steps.
  [[nodiscard]] bool complete(int steps) const;
  /// One axis, coefficient one, no time, no offset.
  [[nodiscard]] bool plain() const {
    return terms.size() == 1 && terms[0].coefficient == 1 && !varies() && offset == 0;
  }
  bool operator==(const SliceDigit&) const = default;
};

/// Slices of one dimension over the axes of data, context and the factors of a tensor group.
inline constexpr std::size_t kMaxDigits = 8;
using SliceDigits = FixedVector<SliceDigit, kMaxDigits>;

class SliceMap {
 public:
  /// Sharded over axes, the first one outermost; axes of one rank leave no digit.
  [[nodiscard]] static SliceMap shard(const DeviceMesh& mesh, std::initializer_list<Axis> axes);

  void push_back(const SliceDigit& digit) {
    if (digit.modulus > 1) digits_.push_back(digit);
  }
  void pop_back() { digits_.pop_back(); }
  [[nodiscard]] const SliceDigits& digits() const { return digits_; }
  [[nodiscard]] bool whole() const { return digits_.empty(); }
  /// Number of slices the dimension is cut into.
  [[nodiscard]] int slices() const;
  [[nodiscard]] int evaluate(const Coordinates& device, int step = 0, int steps = 1) const;
  /// Every axis that a digit mentions.
  [[nodiscard]] AxisSet axes() const;
  /// Whether the slice of a device changes with the step.
  [[nodiscard]] bool varies() const;
  /// Whether it changes by the same amount with every step but the last.
  [[nodiscard]] bool steady() const;
  /// Axes of digits that `steps` steps do not complete: what a contraction leaves partial over.
  [[nodiscard]] AxisSet spatial_axes(int steps = 1) const;
  /// Axes of digits that travel with the step and come by every slice.
  [[nodiscard]] AxisSet travelling_axes(int steps) const;
  /// The map at one step, time folded into the offsets.
  [[nodiscard]] SliceMap at(int step, int steps) const;
  /// The slice of a device that uses one slice of it per step and has all of them at hand: the map
  /// without the digits that vary, which are its innermost ones.
  [[nodiscard]] SliceMap held() const;
  /// The map as plain digits, offsets and skews dropped: every digit keeps the first of its axes
  /// that are not `taken` yet, as many as make its slices, and takes them.
  [[nodiscard]] SliceMap straightened(AxisSet& taken, const DeviceMesh& mesh) const;
  /// The same map; a digit that only numbers its slices over several axes is one plain digit for
  /// each of them.
  [[nodiscard]] SliceMap spelled(const DeviceMesh& mesh) const;
  [[nodiscard]] bool plain() const;
  bool operator==(const SliceMap&) const = default;

 private:
  SliceDigits digits_;
};

/// How far away, per axis, the device is whose slices at `step` I need at `step + 1`: I receive
/// from coordinate + shift. All zero: nothing moves. `maps` are the dimensions of one tensor.
using Shift = std::array<int, kAxisCount>;
/// The shift that turns the placement `from` into the placement `to` (both without time); nothing
/// where no single shift does, as for a row number that is spread over several axes.
[[nodiscard]] std::optional<Shift> alignment_shift(std::span<const SliceMap> from,
                                                   std::span<const SliceMap> to,
                                                   const DeviceMesh& mesh);
/// The device that holds, placed as `from`, what `device` wants, placed as `to`: the device itself,
/// or else the first one that differs in the fewest axes. Nothing if no device holds it.
[[nodiscard]] std::optional<Coordinates> sender_of(const Coordinates& device,
                                                   std::span<const SliceMap> from,
                                                   std::span<const SliceMap> to,
                                                   const DeviceMesh& mesh);
/// The axes in which some device differs from its sender; nothing where one has no sender.
[[nodiscard]] std::optional<AxisSet> moved_axes(std::span<const SliceMap> from,
                                                std::span<const SliceMap> to,
                                                const DeviceMesh& mesh);

}  // namespace plansearch
