// SPDX-License-Identifier: Apache-2.0
// Computes: what single collectives do to a layout.
// Source: the collectives of communication/redistribution/redistribution.hpp.
// Assumes: the innermost cuts of a dimension leave first, what comes lands inside those there.
// Units: numbers of units.
// Checked by: tests/unit/communication/layout_paths_test.cpp (all of them)
#include "communication/redistribution/redistribution_search.hpp"

#include <algorithm>
#include <bit>

namespace plansearch {

void LayoutMoves::set(const RedistributionPattern& pattern, Landing landing) {
  pattern_ = &pattern;
  directed_ = landing == Landing::AtGoal;
}

void LayoutMoves::expand(const LayoutState& here) {
  here_ = here;
  kept_ = {};
  held_ = 0;
  for (std::size_t dim = 0; dim < pattern_->rank; ++dim) {
    const LayoutCuts& cuts = here_.dims[dim];
    held_ |= cuts.units();
    if (directed_) kept_.dims[dim] = cuts.first(cuts.common(pattern_->goal.dims[dim]));
  }
  kept_.partial = here_.partial;
  reduce_partials();
  for (std::size_t dim = 0; dim < pattern_->rank; ++dim) {
    remove_cuts(dim);
    slice(dim);
  }
  permute();
}

/// The units that may land in a dimension.
std::uint32_t LayoutMoves::landing(std::size_t dim) const {
  return directed_ ? pattern_->goal.dims[dim].units() : (1U << pattern_->units) - 1U;
}

/// Sums the parts along one axis, or along several factors of a tensor group in one go.
void LayoutMoves::reduce_partials() {
  const std::uint32_t left = here_.partial & ~(directed_ ? pattern_->goal.partial : 0U);
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

void LayoutMoves::reduce(std::uint32_t units) {
  push({CommunicationKind::AllReduce, -1, -1, units});
  for (std::size_t dim = 0; dim < pattern_->rank; ++dim) {
    if ((units & ~(landing(dim) & pattern_->full)) != 0) continue;
    push({CommunicationKind::ReduceScatter, -1, static_cast<std::int8_t>(dim), units});
  }
}

/// Gathers the innermost cuts of `dim`, or moves them to another dimension. Several at a time where
/// they are factors of one tensor group.
void LayoutMoves::remove_cuts(std::size_t dim) {
  const LayoutCuts& cuts = here_.dims[dim];
  const int size = cuts.size();
  const int kept = kept_.dims[dim].size();
  const auto is_factor = [&](int place) { return (pattern_->factors >> cuts[place] & 1U) != 0; };
  for (int count = 1; count <= size - kept; ++count) {
    if (count > 1 && !(is_factor(size - 1) && is_factor(size - count))) break;
    remove_cuts(dim, count);
  }
}

void LayoutMoves::remove_cuts(std::size_t dim, int count) {
  const auto number = static_cast<std::int8_t>(dim);
  const std::uint32_t lost = here_.dims[dim].units(here_.dims[dim].size() - count);
  push({CommunicationKind::AllGather, number, -1, lost});
  if ((lost & ~pattern_->full) != 0) return;
  for (std::size_t other = 0; other < pattern_->rank; ++other) {
    if (other == dim || (lost & ~landing(other)) != 0) continue;
    push({CommunicationKind::AllToAll, number, static_cast<std::int8_t>(other), lost});
  }
}

void LayoutMoves::slice(std::size_t dim) {
  for (std::uint32_t rest = landing(dim); rest != 0; rest &= rest - 1U) {
    const auto unit = static_cast<std::size_t>(std::countr_zero(rest));
    const std::uint32_t bit = 1U << unit;
    if ((bit & (here_.partial | pattern_->taken)) != 0) continue;
    if ((held_ & pattern_->same_axes[unit]) != 0) continue;
    push({CommunicationKind::Slice, -1, static_cast<std::int8_t>(dim), bit});
  }
}

/// Exchanges cuts between places, with as many slices in every dimension as before: each device
/// takes the tile of another. This helps where cuts block others, or stand for dearer links.
void LayoutMoves::permute() {
  if (directed_ && !is_blocked()) return;
  std::uint32_t loose = 0;
  for (std::size_t dim = 0; dim < pattern_->rank; ++dim) {
    loose |= here_.dims[dim].units() & ~kept_.dims[dim].units();
  }
  if (std::popcount(loose) < 2) return;
  LayoutState state = kept_;
  directed_ ? put_in_order() : rearrange(state, 0, loose_slices(0), loose);
}

int LayoutMoves::loose_slices(std::size_t dim) const {
  return pattern_->slices(here_.dims[dim]) / pattern_->slices(kept_.dims[dim]);
}

/// Whether a cut belongs where it is, behind others, or goes where others have to leave.
bool LayoutMoves::is_blocked() const {
  for (std::size_t dim = 0; dim < pattern_->rank; ++dim) {
    const LayoutCuts& cuts = here_.dims[dim];
    for (int i = kept_.dims[dim].size(); i < cuts.size(); ++i) {
      const int goal = pattern_->goal_dim[static_cast<std::size_t>(cuts[i])];
      if (goal < 0) continue;
      const auto there = static_cast<std::size_t>(goal);
      if (there == dim || kept_.dims[there].size() < here_.dims[there].size()) return true;
    }
  }
  return false;
}

/// In every dimension what belongs there first, as the goal has it.
void LayoutMoves::put_in_order() {
  LayoutState state = kept_;
  for (std::size_t dim = 0; dim < pattern_->rank; ++dim) {
    const LayoutCuts& cuts = here_.dims[dim];
    const LayoutCuts& wanted = pattern_->goal.dims[dim];
    const std::uint32_t loose = cuts.units() & ~kept_.dims[dim].units();
    for (int i = 0; i < wanted.size(); ++i) {
      if ((loose >> wanted[i] & 1U) != 0) state.dims[dim].push_back(wanted[i]);
    }
    for (int i = kept_.dims[dim].size(); i < cuts.size(); ++i) {
      if ((wanted.units() >> cuts[i] & 1U) == 0) state.dims[dim].push_back(cuts[i]);
    }
  }
  push_permutation(state);
}

/// All arrangements of loose units, from dimension `dim` on, which lacks `left` slices.
void LayoutMoves::rearrange(LayoutState& state, std::size_t dim, int left, std::uint32_t loose) {
  if (left == 1) {
    const std::size_t next = dim + 1;
    if (next == pattern_->rank) return push_permutation(state);
    return rearrange(state, next, loose_slices(next), loose);
  }
  const LayoutCuts before = state.dims[dim];
  if (before.full()) return;
  for (std::uint32_t rest = loose; rest != 0; rest &= rest - 1U) {
    const auto unit = static_cast<std::size_t>(std::countr_zero(rest));
    if (left % pattern_->pieces[unit] != 0) continue;
    state.dims[dim].push_back(static_cast<int>(unit));
    rearrange(state, dim, left / pattern_->pieces[unit], loose & ~(1U << unit));
    state.dims[dim] = before;
  }
}

/// Over the units that change their places: of the others every device has the number it needs.
void LayoutMoves::push_permutation(const LayoutState& after) {
  std::uint32_t stay = 0;
  for (std::size_t dim = 0; dim < pattern_->rank; ++dim) {
    const LayoutCuts& before = here_.dims[dim];
    int inside_before = 1;
    for (int i = before.size(); i-- > 0;) {
      const auto unit = static_cast<std::size_t>(before[i]);
      int inside = 1;
      for (int j = after.dims[dim].size(); j-- > 0 && inside <= inside_before;) {
        if (after.dims[dim][j] == before[i] && inside == inside_before) stay |= 1U << unit;
        inside *= pattern_->pieces[static_cast<std::size_t>(after.dims[dim][j])];
      }
      inside_before *= pattern_->pieces[unit];
    }
  }
  if ((held_ & ~stay) != 0) reach({CommunicationKind::Permute, -1, -1, held_ & ~stay}, after);
}

/// Cuts land in the order of the goal, or in any order.
void LayoutMoves::push(const PathMove& move) {
  const int count = std::popcount(move.units);
  if (move.to_dim < 0) return reach(move, pattern_->after(here_, move));
  const auto dim = static_cast<std::size_t>(move.to_dim);
  if (here_.dims[dim].size() + count > LayoutCuts::kMost) return;
  LayoutState after = pattern_->after(here_, move);
  if (count == 1 || directed_) return reach(move, after);
  FixedVector<int, LayoutCuts::kMost> order;
  for (std::uint32_t rest = move.units; rest != 0; rest &= rest - 1U) {
    order.push_back(std::countr_zero(rest));
  }
  do {
    after.dims[dim] = here_.dims[dim];
    for (const int unit : order) after.dims[dim].push_back(unit);
    reach(move, after);
  } while (std::ranges::next_permutation(order).found);
}

}  // namespace plansearch
