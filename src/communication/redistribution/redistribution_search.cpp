// SPDX-License-Identifier: Apache-2.0
// Computes: the cheapest steps between two plain layouts.
// Source: Dijkstra over layouts; of equal costs the one that was reached first.
// Assumes: only cuts that differ move: the common leading digits of every dimension stay where they
//          are.
// Units: elements that a device sends, a small charge per step.
// Checked by: tests/unit/communication/redistribution_test.cpp
#include "communication/redistribution/redistribution_search.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// Breaks ties toward fewer steps; far below one element of any real message.
constexpr double kStepCharge = 1e-3;
/// Over more factors a bound on what is left pays.
constexpr int kFewFactors = 2;

std::size_t hash_of(const LayoutState& state) {
  std::uint64_t sum = state.partial;
  for (const LayoutCuts& cuts : state.dims) {
    sum = (sum ^ cuts.bytes()) * 0x9E3779B97F4A7C15ULL;
    sum ^= sum >> 29U;
  }
  return static_cast<std::size_t>(sum);
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

void RedistributionSearch::run(const DeviceMesh& mesh, std::span<const double> extents,
                               const Layout& from, const Layout& to,
                               std::vector<RedistributionStep>& steps) {
  const bool few = ((from.axes() | to.axes() | from.partial) & kFactorAxes).count() <= kFewFactors;
  run(mesh, extents, from, to, few ? WayFactors::Few : WayFactors::Many, steps);
}

void RedistributionSearch::run(const DeviceMesh& mesh, std::span<const double> extents,
                               const Layout& from, const Layout& to, WayFactors factors,
                               std::vector<RedistributionStep>& steps) {
  units_.set(mesh, extents, from, to, factors);
  if (remember_ == Remember::No || !units_.pattern().key(key_)) {
    search_.run(units_.pattern(), factors, moves_);
    return write(moves_, steps);
  }
  const auto [place, is_new] = known_.try_emplace(key_);
  if (is_new) {
    search_.run(units_.pattern(), factors, moves_);
    place->second = moves_;
  }
  write(place->second, steps);
}

void RedistributionSearch::write(const RedistributionSearcher::Moves& moves,
                                 std::vector<RedistributionStep>& steps) const {
  const RedistributionPattern& pattern = units_.pattern();
  const LayoutState* before = &pattern.start;
  steps.reserve(steps.size() + moves.size());
  for (const auto& [move, after] : moves) {
    const double local = pattern.local_elements(*before) * units_.scale();
    steps.push_back({move.kind, units_.axes(move.units), pattern.group_size(move),
                     pattern.message(move, local), units_.layout(after)});
    before = &after;
  }
}

/// Of many factors, the least cost first: then only layouts on ways of that cost are looked at, in
/// the order of few ones, so that of equal costs the same is taken.
void RedistributionSearcher::run(const RedistributionPattern& pattern, WayFactors factors,
                                 Moves& moves) {
  pattern_ = &pattern;
  factors_ = factors;
  limit_ = std::numeric_limits<double>::infinity();
  if (factors == WayFactors::Many) {
    order_ = Order::InAll;
    limit_ = nodes_[find_goal()].cost + kStepCharge / 2.0;
  }
  order_ = Order::Sent;
  moves.clear();
  for (std::uint32_t node = find_goal(); node != 0; node = nodes_[node].parent) {
    moves.push_back({nodes_[node].move, nodes_[node].state});
  }
  std::reverse(moves.begin(), moves.end());
}

std::uint32_t RedistributionSearcher::find_goal() {
  nodes_.clear();
  open_.clear();
  places_.assign(64, 0);
  nodes_.push_back({pattern_->start, 0.0, 0.0, 0, {}});
  *place_of(pattern_->start) = 1;
  open_.push_back({0.0, 0});
  while (true) {
    PLANSEARCH_CHECK(!open_.empty());
    std::pop_heap(open_.begin(), open_.end(), later);
    const Open next = open_.back();
    open_.pop_back();
    if (next.rank != rank_of(nodes_[next.node])) continue;
    if (nodes_[next.node].state == pattern_->goal) return next.node;
    expand(next.node);
  }
}

void RedistributionSearcher::expand(std::uint32_t node) {
  here_number_ = node;
  here_ = nodes_[node].state;
  local_ = pattern_->local_elements(here_);
  held_ = 0;
  for (std::size_t dim = 0; dim < pattern_->rank; ++dim) held_ |= here_.dims[dim].units();
  reduce_partials();
  for (std::size_t dim = 0; dim < pattern_->rank; ++dim) {
    remove_cuts(dim);
    slice(dim);
  }
  permute();
}

/// Sums the parts along one axis, or along several factors of a tensor group in one go.
void RedistributionSearcher::reduce_partials() {
  const std::uint32_t left = here_.partial & ~pattern_->goal.partial;
  FixedVector<std::uint32_t, RedistributionPattern::kMostUnits> factors;
  for (const std::uint8_t part : pattern_->parts) {
    const std::uint32_t bit = 1U << part;
    if ((left & bit) == 0) continue;
    reduce(bit);
    if ((pattern_->factors & bit) != 0) factors.push_back(bit);
  }
  const auto all = (std::uint32_t{1} << factors.size()) - 1U;
  for (std::uint32_t some = all; some != 0; some = (some - 1U) & all) {
    if (std::popcount(some) < 2) continue;
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      if ((some >> i & 1U) != 0) bits |= factors[i];
    }
    reduce(bits);
  }
}

void RedistributionSearcher::reduce(std::uint32_t units) {
  push({CommunicationKind::AllReduce, -1, -1, units});
  for (std::size_t dim = 0; dim < pattern_->rank; ++dim) {
    if ((units & ~(pattern_->goal.dims[dim].units() & pattern_->full)) != 0) continue;
    push({CommunicationKind::ReduceScatter, -1, static_cast<std::int8_t>(dim), units});
  }
}

/// Gathers the innermost cuts of `dim`, or moves them to another dimension. Several at a time where
/// they are factors of one tensor group.
void RedistributionSearcher::remove_cuts(std::size_t dim) {
  const LayoutCuts& cuts = here_.dims[dim];
  const int size = cuts.size();
  const int kept = cuts.common(pattern_->goal.dims[dim]);
  const auto is_factor = [&](int place) { return (pattern_->factors >> cuts[place] & 1U) != 0; };
  for (int count = 1; count <= size - kept; ++count) {
    if (count > 1 && !(is_factor(size - 1) && is_factor(size - count))) break;
    remove_cuts(dim, count);
  }
}

void RedistributionSearcher::remove_cuts(std::size_t dim, int count) {
  const auto number = static_cast<std::int8_t>(dim);
  const std::uint32_t lost = here_.dims[dim].units(here_.dims[dim].size() - count);
  push({CommunicationKind::AllGather, number, -1, lost});
  if ((lost & ~pattern_->full) != 0) return;
  for (std::size_t other = 0; other < pattern_->rank; ++other) {
    if (other == dim || (lost & ~pattern_->goal.dims[other].units()) != 0) continue;
    push({CommunicationKind::AllToAll, number, static_cast<std::int8_t>(other), lost});
  }
}

void RedistributionSearcher::slice(std::size_t dim) {
  const LayoutCuts& wanted = pattern_->goal.dims[dim];
  for (int i = 0; i < wanted.size(); ++i) {
    const auto unit = static_cast<std::size_t>(wanted[i]);
    const std::uint32_t bit = 1U << unit;
    if ((bit & (here_.partial | pattern_->taken)) != 0) continue;
    if ((held_ & pattern_->same_axes[unit]) != 0) continue;
    push({CommunicationKind::Slice, -1, static_cast<std::int8_t>(dim), bit});
  }
}

/// Every device takes the tile of another, so that in every dimension the cuts of the goal come
/// first, in its order, and those that leave stand inside them.
void RedistributionSearcher::permute() {
  LayoutState after = here_;
  for (std::size_t dim = 0; dim < pattern_->rank; ++dim) put_in_order(dim, after.dims[dim]);
  const std::uint32_t units = moved(after);
  if (units != 0) push({CommunicationKind::Permute, -1, -1, units}, after);
}

void RedistributionSearcher::put_in_order(std::size_t dim, LayoutCuts& cuts) const {
  const LayoutCuts& wanted = pattern_->goal.dims[dim];
  const LayoutCuts before = cuts;
  const std::uint32_t own = before.units();
  cuts = {};
  for (int i = 0; i < wanted.size(); ++i) {
    if ((own >> wanted[i] & 1U) != 0) cuts.push_back(wanted[i]);
  }
  for (int i = 0; i < before.size(); ++i) {
    if ((wanted.units() >> before[i] & 1U) == 0) cuts.push_back(before[i]);
  }
}

/// The cuts inside which another number of slices stands than before: of the others every device
/// has the one it needs.
std::uint32_t RedistributionSearcher::moved(const LayoutState& after) const {
  std::uint32_t units = 0;
  for (std::size_t dim = 0; dim < pattern_->rank; ++dim) {
    if (here_.dims[dim] == after.dims[dim]) continue;
    std::array<int, RedistributionPattern::kMostUnits> inside{};
    const auto visit = [&](const LayoutCuts& cuts, auto change) {
      int slices = 1;
      for (int i = cuts.size(); i-- > 0;) {
        const auto unit = static_cast<std::size_t>(cuts[i]);
        change(unit, slices);
        slices *= pattern_->pieces[unit];
      }
    };
    visit(here_.dims[dim], [&](std::size_t unit, int slices) { inside[unit] = slices; });
    visit(after.dims[dim], [&](std::size_t unit, int slices) {
      if (inside[unit] != slices) units |= 1U << unit;
    });
  }
  return units;
}

/// Where the number of a state's node stands, or belongs.
std::uint32_t* RedistributionSearcher::place_of(const LayoutState& state) {
  const std::size_t mask = places_.size() - 1;
  std::size_t at = hash_of(state) & mask;
  while (places_[at] != 0 && !(nodes_[places_[at] - 1].state == state)) at = (at + 1) & mask;
  return &places_[at];
}

void RedistributionSearcher::grow() {
  places_.assign(places_.size() * 4, 0);
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) *place_of(nodes_[i].state) = i + 1;
}

/// Whether a dimension has room for the cuts it gets.
bool RedistributionSearcher::lands(const WayMove& move) const {
  if (move.to_dim < 0) return true;
  return here_.dims[static_cast<std::size_t>(move.to_dim)].size() + std::popcount(move.units) <=
         LayoutCuts::kMost;
}

void RedistributionSearcher::push(const WayMove& move) {
  if (lands(move)) push(move, pattern_->after(here_, move));
}

void RedistributionSearcher::push(const WayMove& move, const LayoutState& state) {
  const double price =
      elements_moved(move.kind, pattern_->group_size(move), pattern_->message(move, local_));
  const double cost = nodes_[here_number_].cost + price + kStepCharge;
  if (cost > limit_) return;
  std::uint32_t* place = place_of(state);
  std::uint32_t number = *place;
  if (number == 0) {
    const double left =
        factors_ == WayFactors::Few ? 0.0 : pattern_->least_left(state, kStepCharge);
    if (cost + left > limit_) return;
    nodes_.push_back({state, cost, left, here_number_, move});
    number = static_cast<std::uint32_t>(nodes_.size());
    *place = number;
    if (2 * nodes_.size() > places_.size()) grow();
  } else {
    Node& known = nodes_[number - 1];
    if (cost >= known.cost) return;
    known.cost = cost;
    known.parent = here_number_;
    known.move = move;
  }
  open_.push_back({rank_of(nodes_[number - 1]), number - 1});
  std::push_heap(open_.begin(), open_.end(), later);
}

}  // namespace plansearch
