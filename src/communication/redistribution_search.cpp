// SPDX-License-Identifier: Apache-2.0
// Computes: the cheapest steps between two plain layouts.
// Source: Dijkstra over layouts; of equal costs the one that was reached first.
// Assumes: only cuts that differ move: the common leading digits of every dimension stay where they
//          are. Units: elements that a device sends, a small charge per step.
// Checked by: tests/unit/communication/redistribution_test.cpp
#include "communication/redistribution_search.hpp"

#include <algorithm>
#include <bit>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// Breaks ties toward fewer steps; far below one element of any real message.
constexpr double kStepCharge = 1e-3;
constexpr int kBitsOfDigit = 8;

int length(std::uint64_t dim) {
  return (static_cast<int>(std::bit_width(dim)) + kBitsOfDigit - 1) / kBitsOfDigit;
}

std::uint8_t number_at(std::uint64_t dim, int place) {
  return static_cast<std::uint8_t>(dim >> (place * kBitsOfDigit));
}

std::uint64_t with(std::uint64_t dim, std::uint8_t number) {
  return dim | static_cast<std::uint64_t>(number) << (length(dim) * kBitsOfDigit);
}

/// The first `count` digits.
std::uint64_t first(std::uint64_t dim, int count) {
  return count * kBitsOfDigit >= 64 ? dim
                                    : dim & ((std::uint64_t{1} << (count * kBitsOfDigit)) - 1);
}

int common(std::uint64_t a, std::uint64_t b) {
  const int same = std::countr_zero(a ^ b) / kBitsOfDigit;
  return std::min({same, length(a), length(b)});
}

bool holds(std::uint64_t dim, std::uint8_t number) {
  for (; dim != 0; dim >>= kBitsOfDigit) {
    if (number_at(dim, 0) == number) return true;
  }
  return false;
}

bool same_digits(std::uint64_t a, std::uint64_t b) {
  if (length(a) != length(b)) return false;
  for (std::uint64_t rest = a; rest != 0; rest >>= kBitsOfDigit) {
    if (!holds(b, number_at(rest, 0))) return false;
  }
  return true;
}

}  // namespace

bool one_group(const SliceDigit* first, const SliceDigit* last) {
  return last - first == 1 || std::all_of(first, last, [](const SliceDigit& digit) {
           return kFactorAxes.contains(digit.terms[0].axis);
         });
}

std::size_t common_prefix(const SliceDigits& a, const SliceDigits& b) {
  std::size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

std::size_t RedistributionSearch::State::hash() const {
  std::uint64_t sum = partial;
  for (const std::uint64_t dim : dims) {
    sum = (sum ^ dim) * 0x9E3779B97F4A7C15ULL;
    sum ^= sum >> 29U;
  }
  return static_cast<std::size_t>(sum);
}

std::uint8_t RedistributionSearch::number_of(const SliceDigit& digit) {
  const auto known = std::find_if(digits_.begin(), digits_.end(),
                                  [&](const Digit& other) { return other.digit == digit; });
  const auto number = static_cast<std::uint8_t>(known - digits_.begin() + 1);
  if (known == digits_.end()) {
    const Axis axis = digit.terms[0].axis;
    digits_.push_back({digit, axis, digit.modulus == (*mesh_)[axis].size});
  }
  return number;
}

const RedistributionSearch::Digit& RedistributionSearch::digit(std::uint64_t dim, int place) const {
  return digits_[static_cast<std::size_t>(number_at(dim, place) - 1)];
}

RedistributionSearch::State RedistributionSearch::encode(const Layout& layout) {
  State state;
  for (std::size_t dim = 0; dim < layout.dims.size(); ++dim) {
    for (const SliceDigit& digit : layout.dims[dim].digits()) {
      state.dims[dim] = with(state.dims[dim], number_of(digit));
    }
  }
  state.partial = layout.partial.bits();
  return state;
}

Layout RedistributionSearch::decode(const State& state) const {
  Layout layout;
  for (std::size_t dim = 0; dim < rank_; ++dim) {
    SliceMap map;
    for (int i = 0; i < length(state.dims[dim]); ++i) {
      map.push_back(digit(state.dims[dim], i).digit);
    }
    layout.dims.push_back(map);
  }
  for_each_axis(from_->partial, [&](Axis axis) {
    if ((AxisSet{axis}.bits() & state.partial) != 0) layout.partial.insert(axis);
  });
  layout.flat = from_->flat;
  return layout;
}

AxisSet RedistributionSearch::axes_of(std::uint64_t dim) const {
  AxisSet axes;
  for (; dim != 0; dim >>= kBitsOfDigit) axes.insert(digit(dim, 0).axis);
  return axes;
}

int RedistributionSearch::slices_of(std::uint64_t dim) const {
  int slices = 1;
  for (; dim != 0; dim >>= kBitsOfDigit) slices *= digit(dim, 0).digit.modulus;
  return slices;
}

double RedistributionSearch::local_elements(const State& state) const {
  double count = 1.0;
  for (std::size_t dim = 0; dim < rank_; ++dim) {
    count *= extents_[dim] / static_cast<double>(slices_of(state.dims[dim]));
  }
  for (const Axis axis : from_->flat) count /= (*mesh_)[axis].size;
  return count;
}

void RedistributionSearch::run(const DeviceMesh& mesh, std::span<const double> extents,
                               const Layout& from, const Layout& to,
                               std::vector<RedistributionStep>& steps) {
  mesh_ = &mesh;
  extents_ = extents;
  rank_ = from.dims.size();
  from_ = &from;
  digits_.clear();
  nodes_.clear();
  open_.clear();
  places_.assign(64, 0);
  const State start = encode(from);
  to_ = encode(to);
  here_number_ = 0;
  nodes_.push_back({start, 0.0, 0, false, {}});
  *place_of(start) = 1;
  const auto later = [](const Open& a, const Open& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.node > b.node;
  };
  open_.push_back({0.0, 0});
  while (true) {
    PLANSEARCH_CHECK(!open_.empty());
    std::pop_heap(open_.begin(), open_.end(), later);
    const Open next = open_.back();
    open_.pop_back();
    Node& node = nodes_[next.node];
    if (node.settled || next.cost != node.cost) continue;
    if (node.state == to_) return trace(next.node, steps);
    node.settled = true;
    expand(next.node);
  }
}

void RedistributionSearch::trace(std::uint32_t node, std::vector<RedistributionStep>& steps) const {
  const std::size_t first = steps.size();
  for (; node != 0; node = nodes_[node].parent) {
    const Step& step = nodes_[node].step;
    steps.push_back({step.kind, step.axes, step.group_size, step.elements,
                     static_cast<std::int8_t>(step.from_dim), static_cast<std::int8_t>(step.to_dim),
                     decode(nodes_[node].state)});
  }
  std::reverse(steps.begin() + static_cast<std::ptrdiff_t>(first), steps.end());
}

void RedistributionSearch::expand(std::uint32_t node) {
  here_number_ = node;
  here_ = nodes_[node].state;
  local_ = local_elements(here_);
  here_axes_ = AxisSet{};
  for (std::size_t dim = 0; dim < rank_; ++dim) here_axes_ = here_axes_ | axes_of(here_.dims[dim]);
  for (const Axis axis : from_->flat) here_axes_.insert(axis);
  reduce_partials();
  for (std::size_t dim = 0; dim < rank_; ++dim) {
    if (length(here_.dims[dim]) > common(here_.dims[dim], to_.dims[dim])) remove_cuts(dim);
    slice(dim);
  }
}

/// Sums the parts along one axis, or along several factors of a tensor group in one go.
void RedistributionSearch::reduce_partials() {
  const std::uint32_t parts = here_.partial & ~to_.partial;
  const auto chosen = [&](std::uint32_t bits) {
    AxisSet axes;
    for_each_axis(from_->partial, [&](Axis axis) {
      if ((AxisSet{axis}.bits() & bits) != 0) axes.insert(axis);
    });
    return axes;
  };
  for_each_axis(chosen(parts), [&](Axis axis) { reduce({axis}); });
  const std::uint32_t factors = parts & kFactorAxes.bits();
  for (std::uint32_t some = factors; some != 0; some = (some - 1U) & factors) {
    if (std::popcount(some) > 1) reduce(chosen(some));
  }
}

void RedistributionSearch::reduce(AxisSet axes) {
  Step step{CommunicationKind::AllReduce, axes, mesh_->size(axes), local_, -1, -1};
  State next = here_;
  next.partial &= ~axes.bits();
  push(next, step);
  for (std::size_t dim = 0; dim < rank_; ++dim) {
    State scattered = next;
    AxisSet left = axes;
    for (int i = 0; i < length(to_.dims[dim]); ++i) {
      const Digit& gained = digit(to_.dims[dim], i);
      if (!left.contains(gained.axis) || !gained.full) continue;
      scattered.dims[dim] = with(scattered.dims[dim], number_at(to_.dims[dim], i));
      left.erase(gained.axis);
    }
    if (!left.empty()) continue;
    step.kind = CommunicationKind::ReduceScatter;
    step.to_dim = static_cast<int>(dim);
    push(scattered, step);
  }
}

/// Gathers the innermost cuts of `dim`, moves them to another dimension, or reorders the cuts.
/// Several at a time where they are factors of one tensor group.
void RedistributionSearch::remove_cuts(std::size_t dim) {
  const std::uint64_t digits = here_.dims[dim];
  const int size = length(digits);
  const int kept = common(digits, to_.dims[dim]);
  const auto is_factor = [&](int place) { return kFactorAxes.contains(digit(digits, place).axis); };
  for (int count = 1; count <= size - kept; ++count) {
    if (count > 1 && !(is_factor(size - 1) && is_factor(size - count))) break;
    remove_cuts(dim, count);
  }
  if (same_digits(digits, to_.dims[dim])) reorder(dim);
}

void RedistributionSearch::remove_cuts(std::size_t dim, int count) {
  const std::uint64_t digits = here_.dims[dim];
  const int size = length(digits);
  AxisSet axes;
  int pieces = 1;
  bool full = true;
  for (int i = size - count; i < size; ++i) {
    const Digit& lost = digit(digits, i);
    axes.insert(lost.axis);
    pieces *= lost.digit.modulus;
    full = full && lost.full;
  }
  State next = here_;
  next.dims[dim] = first(digits, size - count);
  const std::uint64_t lost = digits >> ((size - count) * kBitsOfDigit);
  push(next,
       {CommunicationKind::AllGather, axes, pieces, local_ * pieces, static_cast<int>(dim), -1});
  for (std::size_t other = 0; full && other < rank_; ++other) {
    if (other == dim) continue;
    State exchanged = next;
    int moved = 0;
    for (std::uint64_t rest = to_.dims[other]; rest != 0; rest >>= kBitsOfDigit) {
      if (!holds(lost, number_at(rest, 0))) continue;
      exchanged.dims[other] = with(exchanged.dims[other], number_at(rest, 0));
      ++moved;
    }
    if (moved != count) continue;
    push(exchanged, {CommunicationKind::AllToAll, axes, pieces, local_, static_cast<int>(dim),
                     static_cast<int>(other)});
  }
}

void RedistributionSearch::reorder(std::size_t dim) {
  const std::uint64_t digits = here_.dims[dim];
  State ordered = here_;
  ordered.dims[dim] = to_.dims[dim];
  bool factors = true;
  for (int i = 0; i < length(digits); ++i) {
    factors = factors && kFactorAxes.contains(digit(digits, i).axis);
  }
  const AxisSet axes = factors || length(digits) == 1
                           ? axes_of(digits)
                           : AxisSet{digit(digits, length(digits) - 1).axis};
  push(ordered, {CommunicationKind::Permute, axes, slices_of(digits), local_, static_cast<int>(dim),
                 static_cast<int>(dim)});
}

void RedistributionSearch::slice(std::size_t dim) {
  for (int i = 0; i < length(to_.dims[dim]); ++i) {
    const Digit& gained = digit(to_.dims[dim], i);
    const bool in_parts = (AxisSet{gained.axis}.bits() & here_.partial) != 0;
    if (in_parts || here_axes_.contains(gained.axis)) continue;
    State next = here_;
    next.dims[dim] = with(next.dims[dim], number_at(to_.dims[dim], i));
    push(next, {CommunicationKind::Slice,
                {gained.axis},
                gained.digit.modulus,
                local_,
                -1,
                static_cast<int>(dim)});
  }
}

/// Where the number of a state's node stands, or belongs.
std::uint32_t* RedistributionSearch::place_of(const State& state) {
  const std::size_t mask = places_.size() - 1;
  std::size_t at = state.hash() & mask;
  while (places_[at] != 0 && !(nodes_[places_[at] - 1].state == state)) at = (at + 1) & mask;
  return &places_[at];
}

void RedistributionSearch::grow() {
  places_.assign(places_.size() * 4, 0);
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) *place_of(nodes_[i].state) = i + 1;
}

void RedistributionSearch::push(const State& state, const Step& step) {
  const double price = elements_moved(step.kind, step.group_size, step.elements);
  const double cost = nodes_[here_number_].cost + price + kStepCharge;
  const auto later = [](const Open& a, const Open& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.node > b.node;
  };
  std::uint32_t* place = place_of(state);
  std::uint32_t number = *place;
  if (number == 0) {
    nodes_.push_back({state, cost, here_number_, false, step});
    number = static_cast<std::uint32_t>(nodes_.size());
    *place = number;
    if (2 * nodes_.size() > places_.size()) grow();
  } else {
    Node& known = nodes_[number - 1];
    if (known.settled || cost >= known.cost) return;
    known.cost = cost;
    known.parent = here_number_;
    known.step = step;
  }
  open_.push_back({cost, number - 1});
  std::push_heap(open_.begin(), open_.end(), later);
}

}  // namespace plansearch
