// SPDX-License-Identifier: Apache-2.0
// Computes: two layouts as cuts by units, numbered in the order they come up in; rates of steps
//           along units.
// Source: definitions: factors that are side by side at both ends cut as one; rates of axes
//         (communication/redistribution/step_rates.hpp).
// Assumes: plain cuts; slices are free.
// Units: numbers of units; multiples of the rate of a gather over all units.
// Checked by: tests/unit/communication/redistribution_test.cpp, layout_paths_test.cpp
#include "communication/redistribution/redistribution_units.hpp"

#include <algorithm>

#include "communication/redistribution/redistribution_search.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// The elements that a device starts with where paths do not depend on it.
constexpr double kManyElements = 1 << 30;

}  // namespace

void RedistributionUnits::set(const TensorMove& move, PathFactors factors) {
  mesh_ = &move.mesh;
  from_ = &move.from;
  to_ = &move.to;
  factors_ = factors;
  units_.clear();
  pattern_ = {};
  add_dimensions();
  find_places(move.from, places_from_);
  find_places(move.to, places_to_);
  for (std::size_t place = 0; place < pattern_.rank; ++place) {
    const auto dim = static_cast<std::size_t>(dims_[place]);
    pattern_.start.dims[place] = encode(dim, move.from.dims[dim].digits());
  }
  for (std::size_t place = 0; place < pattern_.rank; ++place) {
    const auto dim = static_cast<std::size_t>(dims_[place]);
    pattern_.goal.dims[place] = encode(dim, move.to.dims[dim].digits());
  }
  add_parts();
  finish();
  scale_ = local_elements(move.from, move.mesh, move.extents) / kManyElements;
}

void RedistributionUnits::add_dimensions() {
  shared_.clear();
  dims_.clear();
  shared_axes_ = {};
  for (std::size_t dim = 0; dim < from_->dims.size(); ++dim) {
    const SliceDigits& before = from_->dims[dim].digits();
    const SliceDigits& after = to_->dims[dim].digits();
    const std::size_t count = common_prefix(before, after);
    SliceMap shared;
    for (std::size_t i = 0; i < count; ++i) shared.push_back(before[i]);
    shared_.push_back(shared);
    shared_axes_ = shared_axes_ | shared.axes();
    const bool same = count == before.size() && count == after.size();
    if (!same) dims_.push_back(static_cast<int>(dim));
  }
  pattern_.rank = dims_.size();
  for (const Axis axis : from_->flat) {
    pattern_.flat *= (*mesh_)[axis].size;
    shared_axes_.insert(axis);
  }
}

void RedistributionUnits::find_places(const Layout& layout, Places& places) const {
  places.fill({});
  for (std::size_t dim = 0; dim < layout.dims.size(); ++dim) {
    const SliceDigits& digits = layout.dims[dim].digits();
    for (std::size_t i = shared_[dim].digits().size(); i < digits.size(); ++i) {
      places[static_cast<std::size_t>(digits[i].terms[0].axis)] = {static_cast<int>(dim), i};
    }
  }
}

/// Whether two factors that are side by side at one end are so at the other, or are missing there
/// for the same reason.
bool RedistributionUnits::stay_together(const SliceDigit& first, const SliceDigit& second) const {
  if (factors_ == PathFactors::Few) return false;
  const Axis a = first.terms[0].axis;
  const Axis b = second.terms[0].axis;
  const auto whole_factor = [&](const SliceDigit& digit, Axis axis) {
    return kFactorAxes.contains(axis) && digit.modulus == (*mesh_)[axis].size;
  };
  if (!whole_factor(first, a) || !whole_factor(second, b)) return false;
  const auto beside = [&](const Places& places) {
    return places[static_cast<std::size_t>(a)].next_to(places[static_cast<std::size_t>(b)]);
  };
  return beside(places_from_) && beside(places_to_) &&
         from_->partial.contains(a) == from_->partial.contains(b);
}

LayoutCuts RedistributionUnits::encode(std::size_t dim, const SliceDigits& digits) {
  LayoutCuts cuts;
  SliceDigits together;
  for (std::size_t i = shared_[dim].digits().size(); i < digits.size(); ++i) {
    together.push_back(digits[i]);
    if (i + 1 < digits.size() && stay_together(digits[i], digits[i + 1])) continue;
    cuts.push_back(number_of(together));
    together.clear();
  }
  return cuts;
}

int RedistributionUnits::number_of(const SliceDigits& digits) {
  const auto known = std::ranges::find(units_, digits, &Unit::digits);
  const auto number = static_cast<std::size_t>(known - units_.begin());
  if (known != units_.end()) return static_cast<int>(number);
  PLANSEARCH_CHECK(number < RedistributionPattern::kMostUnits);
  Unit& made = units_.emplace_back(Unit{digits, {}});
  int pieces = 1;
  for (const SliceDigit& digit : digits) {
    made.axes.insert(digit.terms[0].axis);
    pieces *= digit.modulus;
  }
  pattern_.pieces[number] = pieces;
  return static_cast<int>(number);
}

void RedistributionUnits::add_part(Axis axis, std::array<int, 2>& together) {
  const auto cut =
      std::ranges::find_if(units_, [&](const Unit& other) { return other.axes.contains(axis); });
  if (cut != units_.end()) {
    const auto number = static_cast<std::uint8_t>(cut - units_.begin());
    const auto& parts = pattern_.parts;
    if (std::ranges::find(parts, number) == parts.end()) pattern_.parts.push_back(number);
    return;
  }
  const bool factor = factors_ == PathFactors::Many && kFactorAxes.contains(axis);
  int& known = together[to_->partial.contains(axis) ? 1 : 0];
  if (factor && known >= 0) {
    Unit& unit = units_[static_cast<std::size_t>(known)];
    unit.axes.insert(axis);
    unit.digits.push_back(SliceMap::shard(*mesh_, {axis}).digits()[0]);
    return;
  }
  PLANSEARCH_CHECK(units_.size() < RedistributionPattern::kMostUnits);
  if (factor) known = static_cast<int>(units_.size());
  pattern_.parts.push_back(static_cast<std::uint8_t>(units_.size()));
  units_.push_back({SliceMap::shard(*mesh_, {axis}).digits(), {axis}});
}

/// Units of parts: those that cut the goal have numbers already.
void RedistributionUnits::add_parts() {
  std::array<int, 2> together{-1, -1};
  for_each_axis(from_->partial, [&](Axis axis) { add_part(axis, together); });
  for (const std::uint8_t part : pattern_.parts) {
    pattern_.start.partial |= 1U << part;
    if (!(units_[part].axes & to_->partial).empty()) pattern_.goal.partial |= 1U << part;
  }
}

/// Completes the fields of every unit once all are known.
void RedistributionUnits::finish() {
  pattern_.units = units_.size();
  pattern_.goal_dim.fill(-1);
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    const AxisSet axes = units_[unit].axes;
    const std::uint32_t bit = 1U << unit;
    const int ranks = mesh_->size(axes);
    pattern_.ranks[unit] = ranks;
    if (pattern_.pieces[unit] == 0) pattern_.pieces[unit] = ranks;  // of parts alone
    if (pattern_.pieces[unit] == ranks) pattern_.full |= bit;
    if ((axes - kFactorAxes).empty()) pattern_.factors |= bit;
    if (!(axes & shared_axes_).empty()) pattern_.taken |= bit;
    for (std::size_t other = 0; other < units_.size(); ++other) {
      if (!(axes & units_[other].axes).empty()) pattern_.same_axes[unit] |= 1U << other;
    }
  }
  for (std::size_t place = 0; place < pattern_.rank; ++place) {
    const LayoutCuts& cuts = pattern_.goal.dims[place];
    for (int i = 0; i < cuts.size(); ++i) {
      pattern_.goal_dim[static_cast<std::size_t>(cuts[i])] = static_cast<int>(place);
    }
  }
  pattern_.elements = kManyElements;
  for (std::size_t place = 0; place < pattern_.rank; ++place) {
    pattern_.start_slices *= pattern_.slices(pattern_.start.dims[place]);
  }
}

Layout RedistributionUnits::layout(const LayoutState& state) const {
  Layout layout;
  layout.dims = shared_;
  for (std::size_t place = 0; place < pattern_.rank; ++place) {
    SliceMap& map = layout.dims[static_cast<std::size_t>(dims_[place])];
    const LayoutCuts& cuts = state.dims[place];
    for (int i = 0; i < cuts.size(); ++i) {
      for (const SliceDigit& digit : units_[static_cast<std::size_t>(cuts[i])].digits) {
        map.push_back(digit);
      }
    }
  }
  layout.partial = axes(state.partial) & from_->partial;
  layout.flat = from_->flat;
  return layout;
}

AxisSet RedistributionUnits::axes(std::uint32_t units) const {
  AxisSet axes;
  for (; units != 0; units &= units - 1U) {
    axes = axes | units_[static_cast<std::size_t>(std::countr_zero(units))].axes;
  }
  return axes;
}

void UnitRates::set(const RedistributionUnits& units, const StepRates* steps) {
  rates_.clear();
  const std::uint32_t all = (1U << units.pattern().units) - 1U;
  if (steps == nullptr || all == 0) return;
  rates_.assign((std::size_t{all} + 1) << kKindBits, 0.0);
  const double of_all = steps->rate(CommunicationKind::AllGather, units.axes(all));
  for (std::uint32_t some = 1; some <= all; ++some) {
    const AxisSet axes = units.axes(some);
    for (const CommunicationKind kind : kMovingKinds) {
      rates_[std::size_t{some} << kKindBits | static_cast<std::size_t>(kind)] =
          steps->rate(kind, axes) / of_all;
    }
  }
}

UnitRates UnitRates::renamed(const UnitNames& names) const {
  UnitRates made;
  made.rates_.resize(rates_.size());
  for (std::size_t units = 0; units < rates_.size() >> kKindBits; ++units) {
    std::size_t own = 0;
    for (std::size_t rest = units; rest != 0; rest &= rest - 1U) {
      own |= std::size_t{1} << names[static_cast<std::size_t>(std::countr_zero(rest))];
    }
    std::copy_n(rates_.begin() + static_cast<std::ptrdiff_t>(units << kKindBits), 1U << kKindBits,
                made.rates_.begin() + static_cast<std::ptrdiff_t>(own << kKindBits));
  }
  return made;
}

void UnitRates::put(std::string& bytes) const {
  bytes.append(reinterpret_cast<const char*>(rates_.data()), rates_.size() * sizeof(double));
}

}  // namespace plansearch
