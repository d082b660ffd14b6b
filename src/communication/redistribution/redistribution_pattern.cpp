// SPDX-License-Identifier: Apache-2.0
// Computes: the effect of steps on a layout without names: cuts, sizes of tiles and of messages; a
//           lower bound of the elements sent from one layout to another.
// Source: the collectives of communication/redistribution/redistribution.hpp; the bound serves A*
//         (Hart, Nilsson, Raphael 1968): the cuts that have to go, by the steps that remove them.
// Assumes: slices of one dimension are equal; tiles are never smaller than with all cuts of both
//          layouts at once.
// Units: elements that a device sends, a small charge per step.
// Checked by: tests/unit/communication/redistribution_test.cpp, directed_paths_test.cpp (the same
//             costs without the bound)
#include "communication/redistribution/redistribution_pattern.hpp"

#include "base/hash.hpp"

namespace plansearch {
namespace {

bool power_of_two(int value) {
  return std::has_single_bit(static_cast<unsigned>(value));
}

}  // namespace

double RedistributionPattern::local_elements(const LayoutState& state) const {
  int cut = 1;
  for (std::size_t dim = 0; dim < rank; ++dim) cut *= slices(state.dims[dim]);
  return elements * start_slices / cut;
}

int RedistributionPattern::product(const std::array<int, kMostUnits>& of,
                                   std::uint32_t some) const {
  int result = 1;
  for (; some != 0; some &= some - 1U)
    result *= of[static_cast<std::size_t>(std::countr_zero(some))];
  return result;
}

LayoutState RedistributionPattern::after(LayoutState state, const PathMove& move) const {
  const auto dim = [&](std::int8_t number) -> LayoutCuts& {
    return state.dims[static_cast<std::size_t>(number)];
  };
  state.partial &= ~move.units;
  if (move.from_dim >= 0) {
    LayoutCuts& cuts = dim(move.from_dim);
    cuts = cuts.first(cuts.size() - std::popcount(move.units));
  }
  if (move.to_dim < 0) return state;
  // Cuts that belong there come first, in the order of the goal; those that leave are inside.
  const LayoutCuts& wanted = goal.dims[static_cast<std::size_t>(move.to_dim)];
  for (int i = 0; i < wanted.size(); ++i) {
    if ((move.units >> wanted[i] & 1U) != 0) dim(move.to_dim).push_back(wanted[i]);
  }
  for (std::uint32_t rest = move.units & ~wanted.units(); rest != 0; rest &= rest - 1U) {
    dim(move.to_dim).push_back(std::countr_zero(rest));
  }
  return state;
}

int RedistributionPattern::group_size(const PathMove& move) const {
  const bool sums =
      move.kind == CommunicationKind::AllReduce || move.kind == CommunicationKind::ReduceScatter;
  return product(sums ? ranks : pieces, move.units);
}

double RedistributionPattern::message(const PathMove& move, double local) const {
  return move.kind == CommunicationKind::AllGather ? local * product(pieces, move.units) : local;
}

bool RedistributionPattern::key(std::string& bytes) const {
  if (flat != 1) return false;
  bytes.clear();
  put_bytes(bytes, elements);
  for (std::size_t dim = 0; dim < rank; ++dim) {
    put_bytes(bytes, start.dims[dim].bytes());
    put_bytes(bytes, goal.dims[dim].bytes());
  }
  put_bytes(bytes, start.partial);
  put_bytes(bytes, goal.partial);
  for (const std::uint8_t part : parts) put_bytes(bytes, part);
  for (std::size_t unit = 0; unit < units; ++unit) {
    const bool alone = same_axes[unit] == 1U << unit && (taken >> unit & 1U) == 0;
    if (!alone || !power_of_two(pieces[unit]) || !power_of_two(ranks[unit])) return false;
    put_bytes(bytes, static_cast<std::uint16_t>(pieces[unit]));
    put_bytes(bytes, static_cast<std::uint16_t>(ranks[unit]));
    put_bytes(bytes, static_cast<std::uint8_t>(factors >> unit & 1U));
  }
  return true;
}

namespace {

/// In tiles. Each item takes a step of its own, or a step for several sends more than all of them.
class Left {
 public:
  double missing = 1.0;    ///< pieces of the goal's cuts that are not there
  double scattered = 1.0;  ///< parts summed along axes that cut the goal
  bool summed = false;     ///< whether others are summed
  int sliced = 0;          ///< cuts that cost nothing

  /// From the innermost cut outwards. Pieces that leave are sent while the cuts inside them that stay are
  /// gathered.
  void add(std::size_t dim, LayoutCuts cuts, int kept, const RedistributionPattern& pattern) {
    double inside = 1.0;
    double gathered = 1.0;
    for (int i = cuts.size(); i-- > kept;) {
      const auto unit = static_cast<std::size_t>(cuts[i]);
      const int goal = pattern.goal_dim[unit];
      const int pieces = pattern.pieces[unit];
      if (goal == static_cast<int>(dim)) {
        inside *= pieces;
        continue;
      }
      gathered = inside;
      if (goal < 0) {
        dropped_ *= pieces;
        continue;
      }
      Exchange& exchange = exchanged_[dim][static_cast<std::size_t>(goal)];
      if (exchange.pieces == 1.0) ++exchanges_;
      exchange.pieces *= pieces;
      exchange.tiles = inside * (1.0 - 1.0 / pieces) + exchange.tiles / pieces;
    }
    reordered_ += inside > gathered ? 1 : 0;
    freed_ += gathered - 1.0;
    freed_dims_ += gathered > 1.0 ? 1 : 0;
  }

  /// A permutation of the cuts, for a tile, leaves each free to go.
  [[nodiscard]] double tiles(std::size_t rank) const {
    const double always = (dropped_ - 1.0) + (scattered - 1.0) + (summed ? 1.0 : 0.0);
    return always + std::min(blocked(rank), 1.0 + free(rank));
  }

  [[nodiscard]] int steps() const {
    const int ordered = reordered_ + freed_dims_ > 0 ? 1 : 0;
    return (dropped_ > 1.0 ? 1 : 0) + (scattered > 1.0 ? 1 : 0) + (summed ? 1 : 0) + sliced +
           std::max(exchanges_, ordered);
  }

 private:
  /// Cuts that change their dimension, with nothing in their way.
  [[nodiscard]] double free(std::size_t rank) const {
    double sum = 0.0;
    if (exchanges_ == 0) return sum;
    for (std::size_t a = 0; a < rank; ++a) {
      for (std::size_t b = 0; b < rank; ++b) sum += 1.0 - 1.0 / exchanged_[a][b].pieces;
    }
    return sum;
  }

  /// Two dimensions that exchange cuts: what lands inside a cut that has yet to leave blocks it, so
  /// that the cuts of one of them are gathered and those of the other sent in larger tiles.
  [[nodiscard]] double blocked(std::size_t rank) const {
    double sum = reordered_ + freed_;
    if (exchanges_ == 0) return sum;
    const auto crossed = [](const Exchange& one, const Exchange& other) {
      return (one.pieces - 1.0) + one.pieces * (1.0 - 1.0 / other.pieces);
    };
    for (std::size_t a = 0; a < rank; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const Exchange& there = exchanged_[a][b];
        const Exchange& back = exchanged_[b][a];
        const double sent = there.tiles + back.tiles;
        const bool both = there.pieces > 1.0 && back.pieces > 1.0;
        sum += both ? std::max(sent, std::min(crossed(there, back), crossed(back, there))) : sent;
      }
    }
    return sum;
  }

  /// Cuts that go from one dimension to another.
  struct Exchange {
    double pieces = 1.0;
    double tiles = 0.0;  ///< sent
  };
  double dropped_ = 1.0;  ///< pieces of cuts the goal does not have: gathered
  int reordered_ = 0;     ///< dimensions with cuts that belong there and stand elsewhere
  /// Pieces, less one, of cuts that belong where they are and stand inside one that leaves:
  /// they
  /// are gathered first. Summed over dimensions.
  double freed_ = 0.0;
  int freed_dims_ = 0;
  int exchanges_ = 0;
  std::array<std::array<Exchange, kMaxTensorRank>, kMaxTensorRank> exchanged_{};
};

}  // namespace

double RedistributionPattern::least_left(const LayoutState& state, double charge) const {
  Left left;
  std::uint32_t held = 0;
  std::uint32_t wanted = 0;
  for (std::size_t dim = 0; dim < rank; ++dim) {
    held |= state.dims[dim].units();
    wanted |= goal.dims[dim].units();
    left.add(dim, state.dims[dim], state.dims[dim].common(goal.dims[dim]), *this);
  }
  const std::uint32_t absent = wanted & ~held;
  const std::uint32_t scattered = absent & state.partial & full;
  left.missing = product(pieces, absent);
  left.scattered = product(pieces, scattered);
  left.sliced = std::popcount(absent & ~state.partial);
  left.summed = (state.partial & ~goal.partial & ~scattered) != 0;
  return local_elements(state) / left.missing * left.tiles(rank) + charge * left.steps();
}

}  // namespace plansearch
