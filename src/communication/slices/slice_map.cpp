// SPDX-License-Identifier: Apache-2.0
// Computes: which slice of a dimension a device holds or uses at a step.
// Source: index = (sum of a_i x coordinate_i + b x t + d x [last step] + k) mod slices, digit by
//         digit (PrimePar, ASPLOS 2024, section 4, written for any number of axes).
// Assumes: slices of one dimension are equal.
// Units: slice numbers from 0, steps from 0.
// Checked by: tests/unit/communication/temporal_test.cpp,
//             tests/unit/communication/execution_test.cpp
#include "communication/slices/slice_map.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace plansearch {
namespace {

int positive_modulo(int value, int modulus) {
  const int rest = value % modulus;
  return rest < 0 ? rest + modulus : rest;
}

/// Whether moving by `shift` turns `from` into `to`: same terms, offsets that differ by the shift.
/// Coordinates wrap around, which must not show: a digit that carries into the next one does.
bool shift_aligns(const SliceDigit& from, const SliceDigit& to, const Shift& shift,
                  const DeviceMesh& mesh) {
  if (from.modulus != to.modulus || !(from.terms == to.terms)) return false;
  int sum = from.offset - to.offset;
  for (const SliceTerm& term : from.terms) {
    const int moved = shift[static_cast<std::size_t>(term.axis)];
    if (moved != 0 && term.coefficient * mesh[term.axis].size % from.modulus != 0) return false;
    sum += term.coefficient * moved;
  }
  return positive_modulo(sum, from.modulus) == 0;
}

bool shift_aligns(std::span<const SliceMap> from, std::span<const SliceMap> to, const Shift& shift,
                  const DeviceMesh& mesh) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto& a = from[i].digits();
    const auto& b = to[i].digits();
    if (a.size() != b.size()) return false;
    for (std::size_t j = 0; j < a.size(); ++j) {
      if (!shift_aligns(a[j], b[j], shift, mesh)) return false;
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

/// The next coordinates (or shift) in counting order over `axes`; false after the last ones.
bool advance(std::array<int, kAxisCount>& shift, AxisSet axes, const DeviceMesh& mesh) {
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
  int sum = offset + time * (step / period) + (step + 1 == steps ? last : 0);
  for (const SliceTerm& term : terms) {
    sum += term.coefficient * device[static_cast<std::size_t>(term.axis)];
  }
  return positive_modulo(sum, modulus);
}

bool SliceDigit::complete(int steps) const {
  return time != 0 && steps >= modulus * period &&
         std::gcd(static_cast<std::int32_t>(time), modulus) == 1;
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

bool SliceMap::steady() const {
  return std::ranges::all_of(digits_, [](const SliceDigit& digit) { return digit.period == 1; });
}

AxisSet SliceMap::spatial_axes(int steps) const {
  AxisSet set;
  for (const SliceDigit& digit : digits_) {
    if (!digit.complete(steps)) set = set | digit.axes();
  }
  return set;
}

AxisSet SliceMap::travelling_axes(int steps) const {
  AxisSet set;
  for (const SliceDigit& digit : digits_) {
    if (digit.complete(steps)) set = set | digit.axes();
  }
  return set;
}

SliceMap SliceMap::held() const {
  SliceMap map;
  bool innermost = false;
  for (const SliceDigit& digit : digits_) {
    PLANSEARCH_CHECK(!innermost || digit.varies());
    innermost = innermost || digit.varies();
    if (!digit.varies()) map.push_back(digit);
  }
  return map;
}

SliceMap SliceMap::at(int step, int steps) const {
  SliceMap map;
  for (SliceDigit digit : digits_) {
    const int moved =
        digit.offset + digit.time * (step / digit.period) + (step + 1 == steps ? digit.last : 0);
    digit.offset = static_cast<std::int16_t>(positive_modulo(moved, digit.modulus));
    digit.time = 0;
    digit.last = 0;
    digit.period = 1;
    map.push_back(digit);
  }
  return map;
}

SliceMap SliceMap::straightened(AxisSet& taken, const DeviceMesh& mesh) const {
  SliceMap map;
  for (const SliceDigit& digit : digits_) {
    std::int32_t left = digit.modulus;
    for (const SliceTerm& term : digit.terms) {
      if (taken.contains(term.axis) || left == 1) continue;
      SliceDigit plain;
      // Slices that repeat along one axis, or a part of those of several.
      plain.modulus = digit.terms.size() == 1 ? left : std::gcd(left, mesh[term.axis].size);
      plain.terms.push_back({term.axis, 1});
      taken.insert(term.axis);
      left /= plain.modulus;
      map.push_back(plain);
    }
    PLANSEARCH_CHECK(left == 1);
  }
  return map;
}

namespace {

/// Whether a digit is a number written over its axes, the outermost first.
bool is_number(const SliceDigit& digit, const DeviceMesh& mesh) {
  if (digit.terms.size() < 2 || digit.varies() || digit.offset != 0) return false;
  int weight = digit.modulus;
  return std::ranges::all_of(digit.terms,
                             [&](const SliceTerm& term) {
                               const int size = mesh[term.axis].size;
                               if (weight % size != 0) return false;
                               weight /= size;
                               return term.coefficient == weight;
                             }) &&
         weight == 1;
}

}  // namespace

SliceMap SliceMap::spelled(const DeviceMesh& mesh) const {
  SliceMap map;
  for (const SliceDigit& digit : digits_) {
    if (!is_number(digit, mesh)) {
      map.push_back(digit);
      continue;
    }
    for (const SliceTerm& term : digit.terms) {
      SliceDigit plain;
      plain.modulus = mesh[term.axis].size;
      plain.terms.push_back({term.axis, 1});
      map.push_back(plain);
    }
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
    if (shift_aligns(from, to, shift, mesh)) return shift;
  } while (advance(shift, axes, mesh));
  return std::nullopt;
}

namespace {

AxisSet all_axes(std::span<const SliceMap> a, std::span<const SliceMap> b) {
  AxisSet axes;
  for (const SliceMap& map : a) axes = axes | map.axes();
  for (const SliceMap& map : b) axes = axes | map.axes();
  return axes;
}

AxisSet difference(const Coordinates& a, const Coordinates& b) {
  AxisSet axes;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) axes.insert(static_cast<Axis>(i));
  }
  return axes;
}

/// The devices along some axes by what they hold, placed as `from`.
class Holders {
 public:
  Holders(std::span<const SliceMap> from, AxisSet axes, const DeviceMesh& mesh)
      : from_(from), axes_(axes) {
    std::size_t slices = 1;
    for (const SliceMap& map : from) slices *= static_cast<std::size_t>(map.slices());
    devices_.resize(slices);
    Coordinates device{};
    do {
      devices_[*number_of(from, device)].push_back(device);
    } while (advance(device, axes, mesh));
  }

  /// The first of those that differ in the fewest axes from `device`, placed as `to`.
  [[nodiscard]] std::optional<Coordinates> sender(const Coordinates& device,
                                                  std::span<const SliceMap> to) const {
    const auto wanted = number_of(to, device);
    if (!wanted) return std::nullopt;
    if (number_of(from_, device) == wanted) return device;
    std::optional<Coordinates> best;
    for (const Coordinates& there : devices_[*wanted]) {
      Coordinates candidate = device;
      for_each_axis(axes_, [&](Axis axis) {
        candidate[static_cast<std::size_t>(axis)] = there[static_cast<std::size_t>(axis)];
      });
      if (!best || difference(candidate, device).count() < difference(*best, device).count()) {
        best = candidate;
      }
    }
    return best;
  }

 private:
  /// The slice of the device in all maps, as one number; absent where `from` has no such slice.
  [[nodiscard]] std::optional<std::size_t> number_of(std::span<const SliceMap> maps,
                                                     const Coordinates& device) const {
    std::size_t number = 0;
    for (std::size_t i = 0; i < maps.size(); ++i) {
      const int slice = maps[i].evaluate(device);
      if (slice >= from_[i].slices()) return std::nullopt;
      number =
          number * static_cast<std::size_t>(from_[i].slices()) + static_cast<std::size_t>(slice);
    }
    return number;
  }

  std::span<const SliceMap> from_;
  AxisSet axes_;
  std::vector<std::vector<Coordinates>> devices_;
};

}  // namespace

std::optional<Coordinates> sender_of(const Coordinates& device, std::span<const SliceMap> from,
                                     std::span<const SliceMap> to, const DeviceMesh& mesh) {
  return Holders(from, all_axes(from, to), mesh).sender(device, to);
}

namespace {

/// Maps of one tensor, before and after, that share no axis with the rest of it.
struct Part {
  AxisSet axes;
  std::vector<SliceMap> from;
  std::vector<SliceMap> to;
};

/// Digit by digit where both maps have the same slices at every place.
bool same_places(const SliceDigits& a, const SliceDigits& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const SliceDigit& x, const SliceDigit& y) { return x.modulus == y.modulus; });
}

/// Parts of `from` and `to` without common axes: who sends what along the axes of one part does not
/// depend on the others. Nothing moves along those of a part that is the same in both.
std::vector<Part> independent_parts(std::span<const SliceMap> from, std::span<const SliceMap> to) {
  std::vector<Part> parts;
  const auto add = [&](const SliceMap& before, const SliceMap& after) {
    Part joined{before.axes() | after.axes(), {before}, {after}};
    std::erase_if(parts, [&](const Part& part) {
      if ((part.axes & joined.axes).empty()) return false;
      joined.axes = joined.axes | part.axes;
      joined.from.insert(joined.from.end(), part.from.begin(), part.from.end());
      joined.to.insert(joined.to.end(), part.to.begin(), part.to.end());
      return true;
    });
    parts.push_back(std::move(joined));
  };
  for (std::size_t i = 0; i < from.size(); ++i) {
    const SliceDigits& a = from[i].digits();
    const SliceDigits& b = to[i].digits();
    if (!same_places(a, b)) {
      add(from[i], to[i]);
      continue;
    }
    for (std::size_t j = 0; j < a.size(); ++j) {
      SliceMap before;
      SliceMap after;
      before.push_back(a[j]);
      after.push_back(b[j]);
      add(before, after);
    }
  }
  std::erase_if(parts, [](const Part& part) { return part.from == part.to; });
  return parts;
}

}  // namespace

std::optional<AxisSet> moved_axes(std::span<const SliceMap> from, std::span<const SliceMap> to,
                                  const DeviceMesh& mesh) {
  AxisSet moved;
  if (const auto shift = alignment_shift(from, to, mesh)) {
    for (std::size_t i = 0; i < shift->size(); ++i) {
      if ((*shift)[i] != 0) moved.insert(static_cast<Axis>(i));
    }
    return moved;
  }
  for (const Part& part : independent_parts(from, to)) {
    const Holders holders(part.from, part.axes, mesh);
    Coordinates device{};
    do {
      const auto sender = holders.sender(device, part.to);
      if (!sender) return std::nullopt;
      moved = moved | difference(*sender, device);
    } while (advance(device, part.axes, mesh));
  }
  return moved;
}

}  // namespace plansearch
