// SPDX-License-Identifier: Apache-2.0
// Computes: placements from names, and names from placements.
// Source: the order of the blocks of a network; layers count from 0.
// Assumes: dimensions and operators of a block have names of their own.
// Units: layers, numbers of factors.
// Checked by: tests/unit/evaluate/placed_plan_test.cpp
#include "plansearch/placements.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/ranges.hpp"
#include "plan/placements/check_placements.hpp"
#include "plan/placements/selector.hpp"

namespace plansearch {
namespace {

using Fault = std::optional<PlacementFault>;

/// Every copy of every block, and the number of the layer it is.
struct Copy {
  LayerChoice choice;
  std::optional<std::int64_t> layer;
};

std::vector<Copy> copies_of(const Network& network) {
  std::vector<Copy> copies;
  for (const BlockCopy& place : block_copies(network)) {
    Copy& copy = copies.emplace_back(Copy{{}, place.layer});
    copy.choice.block = place.block;
    copy.choice.choice.operators.resize(network.blocks[place.block].operators.size());
  }
  return copies;
}

/// Factors of a cut over all of the group.
FactorList outermost_first(std::size_t count) {
  FactorList list;
  for (std::size_t f = count; f-- > 0;) list.push_back(static_cast<std::uint8_t>(f));
  return list;
}

class Resolver {
 public:
  Resolver(const PlacementNames& names, const Network& network, const PlanDegrees& degrees,
           const Framework& framework)
      : names_(names),
        network_(network),
        factors_(names.factors.empty() ? prime_factors(degrees.tensor_out) : names.factors),
        plan_{degrees, framework, factors_},
        copies_(copies_of(network)) {}

  std::variant<DistinguishedNetwork, PlacementFault> run() {
    if (auto bad = check_factors()) return *std::move(bad);
    // Entries that name operators come before those that mean all others.
    for (const bool named : {true, false}) {
      for (std::size_t e = 0; e < names_.operators.size(); ++e) {
        const PlacementEntry& entry = names_.operators[e];
        if (entry.operators.empty() == named) continue;
        auto bad = check_targets(entry);
        if (!bad) bad = place(entry);
        if (bad) return fault(PlacementList::Operators, e, *std::move(bad));
      }
    }
    for (std::size_t e = 0; e < names_.edges.size(); ++e) {
      auto bad = check_targets(names_.edges[e]);
      if (!bad) bad = place_edge(names_.edges[e]);
      if (bad) return fault(PlacementList::Edges, e, *std::move(bad));
    }
    for (std::size_t e = 0; e < names_.regions.size(); ++e) {
      auto bad = check_targets(names_.regions[e]);
      if (!bad) bad = place_region(names_.regions[e]);
      if (bad) return fault(PlacementList::Regions, e, *std::move(bad));
    }
    std::vector<LayerChoice> layers;
    for (Copy& copy : copies_) layers.push_back(std::move(copy.choice));
    return distinguish_layers(network_, factors_, std::move(layers));
  }

 private:
  static PlacementFault fault(PlacementList list, std::size_t entry, PlacementFault what) {
    what.list = list;
    what.entry = entry;
    return what;
  }

  [[nodiscard]] Fault check_factors() const {
    std::int64_t product = 1;
    for (const int size : factors_) product = size < 2 ? -1 : product * size;
    const int group = plan_.degrees.tensor_out;
    if (product == group) return std::nullopt;
    return PlacementFault{fmt::format("factors {} do not multiply to the tensor degree {}",
                                      fmt::join(factors_, " x "), group),
                          fmt::format("prime factors of {}, innermost first: [{}]", group,
                                      fmt::join(prime_factors(group), ", "))};
  }

  /// Names of a list of placements, or of regions.
  template <typename Entry>
  [[nodiscard]] bool means(const Entry& entry, const Copy& copy) const {
    const std::string& name = network_.blocks[copy.choice.block].name;
    const bool named =
        contains(entry.blocks, name) || contains(entry.blocks, plain_block_name(name));
    if (!entry.blocks.empty() && !named) return false;
    if (entry.layers.empty()) return true;
    return copy.layer && holds(entry.layers, *copy.layer);
  }

  template <typename Entry>
  [[nodiscard]] Fault check_targets(const Entry& entry) const {
    std::vector<std::string> blocks;
    std::set<std::string> operators;
    for (const Block& block : network_.blocks) {
      if (const std::string name = plain_block_name(block.name); !contains(blocks, name)) {
        blocks.push_back(name);
      }
      for (const Operator& op : block.operators) operators.insert(op.name);
    }
    for (const std::string& block : entry.blocks) {
      if (contains(blocks, plain_block_name(block))) continue;
      return PlacementFault{fmt::format("{} has no block '{}'", network_.name, block),
                            fmt::format("its blocks are {}", fmt::join(blocks, ", "))};
    }
    const std::int64_t layers = layer_count(network_);
    for (const LayerRange& range : entry.layers) {
      if (range.first <= range.last && range.last < layers) continue;
      return PlacementFault{
          fmt::format("layers {}-{} are not in {}", range.first, range.last, network_.name),
          fmt::format("its layers are 0-{}", layers - 1)};
    }
    for (const std::string& op : entry.operators) {
      if (operators.contains(op)) continue;
      return PlacementFault{fmt::format("{} has no operator '{}'", network_.name, op),
                            fmt::format("its operators are {}", fmt::join(operators, ", "))};
    }
    return std::nullopt;
  }

  /// Absent where none of them has the name.
  [[nodiscard]] std::optional<DimId> find_dimension(const std::string& name,
                                                    const std::vector<DimId>& dims) const {
    const auto found =
        std::ranges::find_if(dims, [&](DimId id) { return network_.dimension(id).name == name; });
    return found == dims.end() ? std::nullopt : std::optional(*found);
  }

  /// The cuts an entry asks of an operator; nothing where it lacks a dimension.
  [[nodiscard]] std::optional<FactorCuts> cuts_of(const PlacementEntry& entry,
                                                  const std::vector<DimId>& dims,
                                                  std::string* missing) const {
    FactorCuts cuts;
    for (const NamedCut& named : entry.cut) {
      auto dim = find_dimension(named.dimension, dims);
      if (!dim && means_value(named.dimension, network_)) dim = kValue;
      if (!dim) {
        *missing = named.dimension;
        return std::nullopt;
      }
      const FactorList factors = named.factors.value_or(outermost_first(factors_.size()));
      if (!factors.empty()) cuts.push_back({*dim, factors});
    }
    return cuts;
  }

  [[nodiscard]] PlacementFault no_dimension(const std::string& what, const std::string& missing,
                                            const std::vector<DimId>& dims) const {
    std::vector<std::string> legal;
    for (const DimId dim : dims) legal.push_back(network_.dimension(dim).name);
    return {fmt::format("{} has no dimension '{}'", what, missing),
            fmt::format("legal: {}", fmt::join(legal, ", "))};
  }

  static PlacementFault judged(const Infeasible& bad) {
    std::string hint = legal_values_text(bad);
    if (hint.empty()) {
      hint =
          "each factor once per operator, extents that divide, squares of equal sides: placements "
          "in docs/plan_format.md";
    }
    return {fmt::format("{}: {}", to_text(bad.obstacle), bad.detail), std::move(hint)};
  }

  [[nodiscard]] Fault place(const PlacementEntry& entry) {
    bool found = false;
    for (Copy& copy : copies_) {
      if (!means(entry, copy)) continue;
      const Block& block = network_.blocks[copy.choice.block];
      for (std::size_t i = 0; i < block.operators.size(); ++i) {
        const Operator& op = block.operators[i];
        auto& place = copy.choice.choice.operators[i];
        const bool named = contains(entry.operators, op.name);
        if (!named && (!entry.operators.empty() || place)) continue;
        std::string missing;
        auto cuts = cuts_of(entry, op.loop, &missing);
        if (!cuts) {
          if (!named) continue;
          return no_dimension(op.name, missing, op.loop);
        }
        if (place) {
          return PlacementFault{fmt::format("{} is placed twice", op.name),
                                "one entry for an operator of a layer"};
        }
        auto bad = check_cuts(network_, op, *cuts, plan_);
        if (!bad) bad = check_windows(network_, block, op, *cuts, plan_);
        if (bad && (named || cuts->empty())) return judged(*bad);
        if (bad) continue;
        if (!entry.squares.empty()) {
          if (auto fault = place_squares(entry.squares, block, i, *cuts, copy)) return fault;
        }
        if (entry.ring) {
          if (auto fault = place_ring(entry, block, i, *cuts, copy)) return fault;
        }
        place = std::move(cuts);
        found = true;
      }
    }
    if (found) return std::nullopt;
    return PlacementFault{"the entry means no operator", "leave it out"};
  }

  [[nodiscard]] Fault place_squares(const std::vector<NamedSquare>& named, const Block& block,
                                    std::size_t i, const FactorCuts& cuts, Copy& copy) const {
    const Operator& op = block.operators[i];
    std::vector<SquareCut> found;
    for (const NamedSquare& one : named) {
      SquareCut& square = found.emplace_back(SquareCut{one.rows, one.columns, {}, {}, {}});
      for (const auto& [name, dim] :
           {std::pair{&one.m, &square.m}, {&one.n, &square.n}, {&one.k, &square.k}}) {
        const auto known = find_dimension(*name, op.loop);
        if (!known) return no_dimension(op.name, *name, op.loop);
        *dim = *known;
      }
    }
    if (const auto bad = check_squares(network_, block, op, cuts, found, plan_))
      return judged(*bad);
    auto& squares = copy.choice.choice.squares;
    squares.resize(block.operators.size());
    squares[i] = std::move(found);
    return std::nullopt;
  }

  [[nodiscard]] Fault place_ring(const PlacementEntry& entry, const Block& block, std::size_t i,
                                 const FactorCuts& cuts, Copy& copy) const {
    const Operator& op = block.operators[i];
    if (!entry.squares.empty()) {
      return PlacementFault{fmt::format("{}: a square and a ring", op.name),
                            "an operator runs over one of them"};
    }
    const auto rows = find_dimension(entry.ring->rows, op.loop);
    if (!rows) return no_dimension(op.name, entry.ring->rows, op.loop);
    const RingCut ring{entry.ring->factors, *rows};
    if (const auto bad = check_ring(network_, block, op, cuts, ring, plan_)) return judged(*bad);
    auto& rings = copy.choice.choice.rings;
    rings.resize(block.operators.size());
    rings[i] = ring;
    return std::nullopt;
  }

  /// An entry that names no blocks, with those of its dimensions that are there.
  [[nodiscard]] PlacementEntry as_far_as(PlacementEntry entry,
                                         const std::vector<DimId>& dims) const {
    std::erase_if(entry.cut, [&](const NamedCut& cut) {
      return !find_dimension(cut.dimension, dims) && !means_value(cut.dimension, network_);
    });
    return entry;
  }

  [[nodiscard]] Fault place_edge(const PlacementEntry& asked) {
    for (Copy& copy : copies_) {
      if (!means(asked, copy)) continue;
      const Block& block = network_.blocks[copy.choice.block];
      std::vector<DimId> dims;
      for (const TensorId id : block.outputs) {
        for (const DimId dim : block.tensor(id).dims) {
          if (!contains(dims, dim)) dims.push_back(dim);
        }
      }
      const bool all_blocks = asked.blocks.empty() && asked.layers.empty();
      const PlacementEntry entry = all_blocks ? as_far_as(asked, dims) : asked;
      if (dims.empty() || (all_blocks && entry.cut.empty() && !asked.cut.empty())) continue;
      std::string missing;
      const auto cuts = cuts_of(entry, dims, &missing);
      if (!cuts) return no_dimension("what " + block.name + " hands on", missing, dims);
      if (copy.choice.choice.leaving) {
        return PlacementFault{fmt::format("the edge of {} is cut twice", block.name),
                              "one entry for the edge of a layer"};
      }
      if (const auto bad = check_edge(network_, block, *cuts, plan_)) return judged(*bad);
      copy.choice.choice.leaving = cuts;
    }
    return std::nullopt;
  }

  [[nodiscard]] Fault place_region(const PieceEntry& entry) {
    bool found = false;
    for (Copy& copy : copies_) {
      if (!means(entry, copy)) continue;
      const Block& block = network_.blocks[copy.choice.block];
      PieceRegion region{{}, {}, entry.pieces, entry.recompute};
      for (std::size_t i = 0; i < block.operators.size(); ++i) {
        const Operator& op = block.operators[i];
        const bool named = contains(entry.operators, op.name);
        if (!entry.operators.empty() && !named) continue;
        std::optional<DimId> dim;
        for (const std::string& name : entry.dimensions) {
          if (!dim) dim = find_dimension(name, op.loop);
        }
        if (!dim && named) return no_dimension(op.name, entry.dimensions.front(), op.loop);
        if (!dim) continue;
        region.operators.push_back(i);
        if (!contains(region.dims, *dim)) region.dims.push_back(*dim);
      }
      if (region.operators.empty()) continue;
      for (const PieceRegion& other : copy.choice.choice.regions) {
        for (const std::size_t op : other.operators) {
          if (!contains(region.operators, op)) continue;
          return PlacementFault{fmt::format("{} runs in pieces twice", block.operators[op].name),
                                "one entry for an operator of a layer"};
        }
      }
      if (const auto bad = check_region(network_, block, copy.choice.choice, region, plan_)) {
        return judged(*bad);
      }
      copy.choice.choice.regions.push_back(std::move(region));
      found = true;
    }
    if (found) return std::nullopt;
    return PlacementFault{
        fmt::format("no operator has a dimension {}", fmt::join(entry.dimensions, ", ")),
        "plansearch show model NAME --graph lists operators and their dimensions"};
  }

  const PlacementNames& names_;
  const Network& network_;
  std::vector<int> factors_;
  PlacedDegrees plan_;
  std::vector<Copy> copies_;
};

std::vector<NamedCut> named(const FactorCuts& cuts, const Network& network) {
  std::vector<NamedCut> names;
  for (const DimensionCut& cut : cuts) {
    const bool value = cut.dim == kValue;
    names.push_back(
        {value ? std::string(kValueWord) : network.dimension(cut.dim).name, cut.factors});
  }
  return names;
}

std::vector<NamedSquare> named(std::span<const SquareCut> squares, const Network& network) {
  std::vector<NamedSquare> names;
  for (const SquareCut& square : squares) {
    names.push_back({square.rows, square.columns, network.dimension(square.m).name,
                     network.dimension(square.n).name, network.dimension(square.k).name});
  }
  return names;
}

std::optional<NamedRing> named(const RingCut* ring, const Network& network) {
  if (ring == nullptr) return std::nullopt;
  return NamedRing{ring->factors, network.dimension(ring->rows).name};
}

/// Adds an entry of one copy; entries that are equal but for their layers name several.
template <typename Entry>
void add_entry(std::vector<Entry>& entries, Entry wanted, std::optional<std::int64_t> layer) {
  auto entry = std::ranges::find_if(entries, [&](const Entry& known) {
    wanted.layers = known.layers;
    return known == wanted;
  });
  if (entry == entries.end()) {
    wanted.layers.clear();
    entries.push_back(std::move(wanted));
    entry = entries.end() - 1;
  }
  if (layer && (entry->layers.empty() || entry->layers.back().last < *layer)) {
    add_number(entry->layers, *layer);
  }
}

PieceEntry named(const PieceRegion& region, const Block& block, const Network& network) {
  PieceEntry names{{}, {plain_block_name(block.name)}, {}, {}, region.pieces, region.recompute};
  for (const std::size_t op : region.operators) names.operators.push_back(block.operators[op].name);
  for (const DimId dim : region.dims) names.dimensions.push_back(network.dimension(dim).name);
  return names;
}

/// Operators of one block that are cut alike in the same layers become one entry.
void join_operators(std::vector<PlacementEntry>& entries) {
  std::vector<PlacementEntry> joined;
  for (PlacementEntry& entry : entries) {
    const auto same = std::ranges::find_if(joined, [&](const auto& known) {
      return known.blocks == entry.blocks && known.layers == entry.layers &&
             known.cut == entry.cut && known.squares == entry.squares && known.ring == entry.ring;
    });
    if (same == joined.end()) {
      joined.push_back(std::move(entry));
    } else {
      same->operators.insert(same->operators.end(), entry.operators.begin(), entry.operators.end());
    }
  }
  entries = std::move(joined);
}

}  // namespace

std::variant<DistinguishedNetwork, PlacementFault> resolve_placements(const PlacementNames& names,
                                                                      const Network& network,
                                                                      const PlanDegrees& degrees,
                                                                      const Framework& framework) {
  return Resolver(names, network, degrees, framework).run();
}

PlacementNames names_of(const Placements& placements, const Network& network) {
  PlacementNames names;
  names.factors = placements.factors;
  for (const BlockCopy& copy : block_copies(network)) {
    const Block& block = network.blocks[copy.block];
    const BlockChoice& choice = placements.blocks[copy.block];
    const std::string name = plain_block_name(block.name);
    for (std::size_t i = 0; i < block.operators.size(); ++i) {
      if (!choice.operators[i]) continue;
      const PlacementEntry entry{{block.operators[i].name},
                                 {name},
                                 {},
                                 named(*choice.operators[i], network),
                                 named(choice.squares_of(i), network),
                                 named(choice.ring(i), network)};
      add_entry(names.operators, entry, copy.layer);
    }
    if (choice.leaving) {
      const PlacementEntry edge{{}, {name}, {}, named(*choice.leaving, network)};
      add_entry(names.edges, edge, copy.layer);
    }
    for (const PieceRegion& region : choice.regions) {
      add_entry(names.regions, named(region, block, network), copy.layer);
    }
  }
  join_operators(names.operators);
  return names;
}

bool means_value(const std::string& name, const Network& network) {
  return name == kValueWord &&
         std::ranges::none_of(network.dimensions,
                              [&](const Dimension& dimension) { return dimension.name == name; });
}

std::vector<int> prime_factors(int number) {
  std::vector<int> factors;
  for (int p = 2; p <= number / p; ++p) {
    for (; number % p == 0; number /= p) factors.push_back(p);
  }
  if (number > 1) factors.push_back(number);
  return factors;
}

std::string plain_block_name(const std::string& name) {
  return name.substr(0, name.find('@'));
}

}  // namespace plansearch
