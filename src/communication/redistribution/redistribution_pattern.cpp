// SPDX-License-Identifier: Apache-2.0
// Computes: what steps do to a layout without names: cuts, sizes of tiles and of messages.
// Source: the collectives of communication/redistribution/redistribution.hpp.
// Assumes: slices of one dimension are equal.
// Units: elements.
// Checked by: tests/unit/communication/redistribution_test.cpp
#include "communication/redistribution/redistribution_pattern.hpp"

#include "base/key_bytes.hpp"

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

LayoutState RedistributionPattern::after(LayoutState state, const WayMove& move) const {
  const auto dim = [&](std::int8_t number) -> LayoutCuts& {
    return state.dims[static_cast<std::size_t>(number)];
  };
  state.partial &= ~move.units;
  if (move.from_dim >= 0) {
    LayoutCuts& cuts = dim(move.from_dim);
    cuts = cuts.first(cuts.size() - std::popcount(move.units));
  }
  if (move.to_dim < 0) return state;
  // Cuts that belong there first, in the order of the goal; inside them the cuts that leave again.
  const LayoutCuts& wanted = goal.dims[static_cast<std::size_t>(move.to_dim)];
  for (int i = 0; i < wanted.size(); ++i) {
    if ((move.units >> wanted[i] & 1U) != 0) dim(move.to_dim).push_back(wanted[i]);
  }
  for (std::uint32_t rest = move.units & ~wanted.units(); rest != 0; rest &= rest - 1U) {
    dim(move.to_dim).push_back(std::countr_zero(rest));
  }
  return state;
}

int RedistributionPattern::group_size(const WayMove& move) const {
  const bool sums =
      move.kind == CommunicationKind::AllReduce || move.kind == CommunicationKind::ReduceScatter;
  return product(sums ? ranks : pieces, move.units);
}

double RedistributionPattern::message(const WayMove& move, double local) const {
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

}  // namespace plansearch
