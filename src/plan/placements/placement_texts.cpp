// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plansearch/placements.hpp"

namespace plansearch {
namespace {

FactorList all_factors(std::size_t count) {
  FactorList list;
  for (std::size_t f = count; f-- > 0;) list.push_back(static_cast<std::uint8_t>(f));
  return list;
}

/// "t1 t0", and how many ranks that is.
std::pair<std::string, std::int64_t> axes_text(const FactorList& list,
                                               const std::vector<int>& factors) {
  std::vector<std::string> names;
  std::int64_t ranks = 1;
  for (const std::uint8_t f : list) {
    names.push_back(fmt::format("t{}", f));
    ranks *= factors[f];
  }
  return {fmt::format("{}", fmt::join(names, " ")), ranks};
}

}  // namespace

std::string cut_text(const std::vector<NamedCut>& cut, const std::vector<int>& factors) {
  std::vector<std::string> parts;
  for (const NamedCut& named : cut) {
    const auto [axes, pieces] =
        axes_text(named.factors.value_or(all_factors(factors.size())), factors);
    if (pieces == 1) continue;
    parts.push_back(fmt::format("{} over {} ({})", named.dimension, axes, pieces));
  }
  return parts.empty() ? "whole" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string square_text(const NamedSquare& square, const std::vector<int>& factors) {
  const auto [rows, side] = axes_text(square.rows, factors);
  return fmt::format("{} steps over a square ({} by {}) of {}, {}, {}", side, rows,
                     axes_text(square.columns, factors).first, square.m, square.n, square.k);
}

std::string ring_text(const NamedRing& ring, const std::vector<int>& factors) {
  const auto [axes, steps] = axes_text(ring.factors, factors);
  return fmt::format("{} steps: tiles of {} travel over {}", steps, ring.rows, axes);
}

std::string pieces_text(const PieceEntry& entry) {
  return fmt::format("{} pieces of {}, one after the other{}", entry.pieces,
                     fmt::join(entry.dimensions, ", "),
                     entry.recompute == PieceRecompute::RunAgain ? ", run again for backward" : "");
}

std::string layers_text(const std::vector<LayerRange>& layers) {
  std::vector<std::string> parts;
  for (const LayerRange& range : layers) {
    parts.push_back(range.first == range.last ? fmt::format("{}", range.first)
                                              : fmt::format("{}-{}", range.first, range.last));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace plansearch
