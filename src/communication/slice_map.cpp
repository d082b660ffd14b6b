// SPDX-License-Identifier: Apache-2.0
// Computes: which slice of a dimension a device holds or uses at a step.
// Source: index = (sum of a_i x coordinate_i + b x t + d x [last step] + k) mod slices, digit by
// digit (PrimePar, ASPLOS 2024, section 4, written for any number of axes). Assumes: at most two
// terms per digit; slices of one dimension are equal. Units: slice numbers from 0, steps from 0.
// Checked by: tests/unit/communication/temporal_test.cpp
#include "communication/slice_map.hpp"

#include <vector>

namespace plansearch {
namespace {

int positive_modulo(int value, int modulus) {
  const int rest = value % modulus;
  return rest < 0 ? rest + modulus : rest;
}

/// Whether moving by `shift` turns `from` into `to`: same terms, offsets that differ by the shift.
bool shift_aligns(const SliceDigit& from, const SliceDigit& to, const Shift& shift) {
  if (from.modulus != to.modulus || !(from.terms == to.terms)) return false;
  int sum = from.offset - to.offset;
  for (const SliceTerm& term : from.terms) {
    sum += term.coefficient * shift[static_cast<std::size_t>(term.axis)];
  }
  return positive_modulo(sum, from.modulus) == 0;
}

bool shift_aligns(std::span<const SliceMap> from, std::span<const SliceMap> to,
                  const Shift& shift) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto& a = from[i].digits();
    const auto& b = to[i].digits();
    if (a.size() != b.size()) return false;
    for (std::size_t j = 0; j < a.size(); ++j) {
      if (!shift_aligns(a[j], b[j], shift)) return false;
    }
  }
  return true;
}

/// Axes of the digits that differ, and of every digit that shares an axis with one of them. Along
/// all others nothing has to move.
AxisSet moving_axes(std::span<const SliceMap> from, std::span<const SliceMap> to) {
  AxisSet moving;
  bool grown = true;
  while (grown) {
    grown = false;
    for (std::size_t i = 0; i < from.size(); ++i) {
      for (std::size_t j = 0; j < from[i].digits().size(); ++j) {
        const SliceDigit& digit = from[i].digits()[j];
        const AxisSet axes = digit.axes();
        const bool moves = !(digit == to[i].digits()[j]) || !(axes & moving).empty();
        if (!moves || (axes - moving).empty()) continue;
        moving = moving | axes;
        grown = true;
      }
    }
  }
  return moving;
}

/// The next shift in counting order over `axes`; false after the last one.
bool advance(Shift& shift, AxisSet axes, const DeviceMesh& mesh) {
  while (!axes.empty()) {
    const Axis axis = axes.front();
    axes.erase(axis);
    int& value = shift[static_cast<std::size_t>(axis)];
    if (++value < mesh[axis].size) return true;
    value = 0;
  }
  return false;
}

}  // namespace

int SliceDigit::evaluate(const Coordinates& device, int step, int steps) const {
  int sum = offset + time * step + (step + 1 == steps ? last : 0);
  for (const SliceTerm& term : terms) {
    sum += term.coefficient * device[static_cast<std::size_t>(term.axis)];
  }
  return positive_modulo(sum, modulus);
}

AxisSet SliceDigit::axes() const {
  AxisSet set;
  for (const SliceTerm& term : terms) set.insert(term.axis);
  return set;
}

SliceMap SliceMap::shard(const DeviceMesh& mesh, std::initializer_list<Axis> axes) {
  SliceMap map;
  for (const Axis axis : axes) {
    SliceDigit digit;
    digit.modulus = mesh[axis].size;
    digit.terms.push_back({axis, 1});
    map.push_back(digit);
  }
  return map;
}

int SliceMap::slices() const {
  int product = 1;
  for (const SliceDigit& digit : digits_) product *= digit.modulus;
  return product;
}

int SliceMap::evaluate(const Coordinates& device, int step, int steps) const {
  int index = 0;
  for (const SliceDigit& digit : digits_) {
    index = index * digit.modulus + digit.evaluate(device, step, steps);
  }
  return index;
}

AxisSet SliceMap::axes() const {
  AxisSet set;
  for (const SliceDigit& digit : digits_) set = set | digit.axes();
  return set;
}

bool SliceMap::varies() const {
  for (const SliceDigit& digit : digits_) {
    if (digit.varies()) return true;
  }
  return false;
}

AxisSet SliceMap::spatial_axes() const {
  AxisSet set;
  for (const SliceDigit& digit : digits_) {
    if (digit.time == 0) set = set | digit.axes();
  }
  return set;
}

AxisSet SliceMap::travelling_axes() const {
  AxisSet set;
  for (const SliceDigit& digit : digits_) {
    if (digit.time != 0) set = set | digit.axes();
  }
  return set;
}

SliceMap SliceMap::at(int step, int steps) const {
  SliceMap map;
  for (SliceDigit digit : digits_) {
    const int moved = digit.offset + digit.time * step + (step + 1 == steps ? digit.last : 0);
    digit.offset = static_cast<std::int16_t>(positive_modulo(moved, digit.modulus));
    digit.time = 0;
    digit.last = 0;
    map.push_back(digit);
  }
  return map;
}

SliceMap SliceMap::straightened(AxisSet& taken) const {
  SliceMap map;
  for (const SliceDigit& digit : digits_) {
    SliceDigit plain;
    plain.modulus = digit.modulus;
    for (const SliceTerm& term : digit.terms) {
      if (taken.contains(term.axis)) continue;
      plain.terms.push_back({term.axis, 1});
      taken.insert(term.axis);
      break;
    }
    PLANSEARCH_CHECK(!plain.terms.empty());
    map.push_back(plain);
  }
  return map;
}

bool SliceMap::plain() const {
  for (const SliceDigit& digit : digits_) {
    if (!digit.plain()) return false;
  }
  return true;
}

std::optional<Shift> alignment_shift(std::span<const SliceMap> from, std::span<const SliceMap> to,
                                     const DeviceMesh& mesh) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i].digits().size() != to[i].digits().size()) return std::nullopt;
  }
  const AxisSet axes = moving_axes(from, to);
  Shift shift{};
  do {
    if (shift_aligns(from, to, shift)) return shift;
  } while (advance(shift, axes, mesh));
  return std::nullopt;
}

Shift ring_shift(std::span<const SliceMap> maps, int step, int steps, const DeviceMesh& mesh) {
  FixedVector<SliceMap, 8> now;
  FixedVector<SliceMap, 8> next;
  for (const SliceMap& map : maps) {
    now.push_back(map.at(step, steps));
    next.push_back(map.at(step + 1, steps));
  }
  const auto shift = alignment_shift({now.begin(), now.size()}, {next.begin(), next.size()}, mesh);
  PLANSEARCH_CHECK(shift.has_value());
  return *shift;
}

}  // namespace plansearch
