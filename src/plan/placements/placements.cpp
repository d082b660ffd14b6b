// SPDX-License-Identifier: Apache-2.0
// Computes: networks whose layers differ in how they are cut, as networks with more kinds of
//           blocks; factors that are always used together, as one.
// Source: the definition: a cut over factors a, b (a outside) is the cut over one factor of both.
// Assumes: what enters a copy of a block lies as the copy in front left it.
// Units: copies of blocks, numbers of factors.
// Checked by: tests/unit/evaluate/placed_plan_test.cpp
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plan/stages/layer_distribution.hpp"
#include "plansearch/error.hpp"
#include "plansearch/placements.hpp"

namespace plansearch {
namespace {

/// A distinct cut of some copies of a block.
struct Kind {
  std::size_t block = 0;  ///< of the network
  BlockChoice choice;
  std::size_t first_layer = 0;
};

std::size_t kind_of(const LayerChoice& copy, std::size_t layer, std::vector<Kind>& kinds) {
  const auto known = std::ranges::find_if(kinds, [&](const Kind& kind) {
    return kind.block == copy.block && kind.choice == copy.choice;
  });
  if (known != kinds.end()) return static_cast<std::size_t>(known - kinds.begin());
  kinds.push_back({copy.block, copy.choice, layer});
  return kinds.size() - 1;
}

/// How the tensors of a copy come in: as the copy in front left its own, and those of edges as
/// their producers left them, along dimensions of which the former says nothing.
std::optional<FactorCuts> entering(const Network& network, const std::vector<LayerChoice>& layers,
                                   std::size_t copy) {
  if (copy == 0) return std::nullopt;
  std::optional<FactorCuts> cuts = layers[copy - 1].choice.leaving;
  const auto place = static_cast<std::int64_t>(copy);
  for (const Edge& edge : network.edges) {
    if (place < edge.to || place >= edge.to + edge.readers) continue;
    const LayerChoice& from = layers[static_cast<std::size_t>(edge.from)];
    if (!from.choice.leaving) continue;
    const Block& maker = network.blocks[from.block];
    const std::vector<DimId>& dims = maker.tensor(maker.outputs[edge.output]).dims;
    if (!cuts) cuts = FactorCuts{};
    for (const DimensionCut& cut : *from.choice.leaving) {
      const bool known = std::ranges::any_of(
          *cuts, [&](const DimensionCut& other) { return other.dim == cut.dim; });
      const bool carried = std::ranges::find(dims, cut.dim) != dims.end();
      if (carried && !known) cuts->push_back(cut);
    }
  }
  return cuts;
}

void append_copy(std::vector<BlockRun>& order, std::size_t block) {
  if (!order.empty() && order.back().block == block) {
    ++order.back().count;
  } else {
    order.push_back({block, 1});
  }
}

template <typename Visit>
void for_each_cut(Placements& placements, Visit visit) {
  const auto all = [&](std::optional<FactorCuts>& cuts) {
    if (!cuts) return;
    for (DimensionCut& cut : *cuts) visit(cut.factors);
  };
  for (BlockChoice& block : placements.blocks) {
    for (auto& cuts : block.operators) all(cuts);
    all(block.entering);
    all(block.leaving);
    for (auto& squares : block.squares) {
      for (SquareCut& square : squares) {
        visit(square.rows);
        visit(square.columns);
      }
    }
    for (auto& ring : block.rings) {
      if (ring) visit(ring->factors);
    }
  }
}

/// Whether factor + 1 always stands right outside factor.
bool always_together(Placements& placements, std::uint8_t factor) {
  const auto outer = static_cast<std::uint8_t>(factor + 1U);
  bool together = true;
  for_each_cut(placements, [&](const FactorList& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i] == outer) together = together && i + 1 < list.size() && list[i + 1] == factor;
      if (list[i] == factor) together = together && i > 0 && list[i - 1] == outer;
    }
  });
  return together;
}

/// Makes factor and factor + 1 one; those outside move down by one.
void merge(Placements& placements, std::uint8_t factor) {
  for_each_cut(placements, [&](FactorList& list) {
    FactorList merged;
    for (const std::uint8_t number : list) {
      if (number == factor + 1U) continue;
      merged.push_back(number > factor ? static_cast<std::uint8_t>(number - 1U) : number);
    }
    list = merged;
  });
  auto& sizes = placements.factors;
  sizes[factor] *= sizes[factor + 1U];
  sizes.erase(sizes.begin() + factor + 1);
}

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

bool BlockChoice::by_role() const {
  return !entering && !leaving && regions.empty() &&
         std::ranges::none_of(operators, [](const auto& cuts) { return cuts.has_value(); });
}

bool Placements::over_squares() const {
  return std::ranges::any_of(blocks, [](const BlockChoice& block) {
    return std::ranges::any_of(block.squares, [](const auto& squares) { return !squares.empty(); });
  });
}

bool Placements::over_rings() const {
  return std::ranges::any_of(blocks, [](const BlockChoice& block) {
    return std::ranges::any_of(block.rings, [](const auto& ring) { return ring.has_value(); });
  });
}

bool Placements::in_pieces() const {
  return std::ranges::any_of(blocks,
                             [](const BlockChoice& block) { return !block.regions.empty(); });
}

bool Placements::by_role() const {
  return std::ranges::all_of(blocks, [](BlockChoice block) {
    block.regions.clear();
    return block.by_role();
  });
}

DistinguishedNetwork distinguish_layers(const Network& network, std::vector<int> factors,
                                        std::vector<LayerChoice> layers) {
  auto made = std::make_shared<Network>(network);
  made->blocks.clear();
  made->order.clear();
  std::vector<Kind> kinds;
  std::vector<std::size_t> kind_of_copy;
  std::size_t layer = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    LayerChoice& copy = layers[i];
    PLANSEARCH_CHECK(copy.block < network.blocks.size());
    copy.choice.operators.resize(network.blocks[copy.block].operators.size());
    copy.choice.entering = entering(network, layers, i);
    kind_of_copy.push_back(kind_of(copy, layer, kinds));
    if (is_layer(network.blocks[copy.block].kind)) ++layer;
  }
  Placements placements{std::move(factors), {}};
  for (const Kind& kind : kinds) {
    Block block = network.blocks[kind.block];
    const auto of_block = [&](const Kind& other) { return other.block == kind.block; };
    if (std::ranges::count_if(kinds, of_block) > 1) {
      block.name += fmt::format("@{}", kind.first_layer);
    }
    made->blocks.push_back(std::move(block));
    placements.blocks.push_back(kind.choice);
  }
  for (const std::size_t kind : kind_of_copy) append_copy(made->order, kind);
  return {std::move(made), std::move(placements)};
}

Placements with_merged_factors(const Placements& placements) {
  Placements merged = placements;
  for (std::size_t f = 0; f + 1 < merged.factors.size();) {
    if (always_together(merged, static_cast<std::uint8_t>(f))) {
      merge(merged, static_cast<std::uint8_t>(f));
    } else {
      ++f;
    }
  }
  return merged;
}

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
