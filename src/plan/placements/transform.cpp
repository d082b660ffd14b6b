// SPDX-License-Identifier: Apache-2.0
// Computes: placements from transforms: which factor of the devices splits which dimension.
// Source: transform of nnScaler (OSDI 2024, section 3.1), by the names of a network.
// Assumes: dimensions of one operator are split over devices of their own, its value over those
//          that leave sums of other operators in parts.
// Units: numbers of factors.
// Checked by: tests/unit/plan/transform_test.cpp
#include "plan/placements/transform.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/names.hpp"
#include "base/ranges.hpp"

namespace plansearch {
namespace {

class Lowering {
 public:
  Lowering(const std::vector<TransformEntry>& entries, const Network& network)
      : entries_(entries), network_(network), copies_(block_copies(network)) {}

  std::variant<PlacementNames, EntryFault> run() {
    for (TransformEntry& entry : entries_) {
      entry.split = named_one_by_one(entry.split);
      entry.pieces = named_one_by_one(entry.pieces);
    }
    note_values();
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      if (auto bad = check(entries_[e])) {
        bad->entry = e;
        return *std::move(bad);
      }
    }
    for (const auto& group : groups_) names_.factors.push_back(group.parts);
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      if (!entries_[e].places()) continue;
      if (auto bad = lower(entries_[e])) {
        bad->entry = e;
        return *std::move(bad);
      }
    }
    return names_;
  }

 private:
  /// Dimensions that one factor splits.
  struct Group {
    int parts = 1;
    std::vector<std::string> dimensions;
  };

  /// The dimensions of operators whose value is split: over other devices than these.
  void note_values() {
    for (const TransformEntry& entry : entries_) {
      const bool value = std::ranges::any_of(
          entry.split, [&](const NamedSplit& split) { return is_value(split.dimension); });
      if (!value) continue;
      for (const Block& block : network_.blocks) {
        for (const Operator& op : block.operators) {
          if (!selects(entry.what.of, block, op)) continue;
          for (const DimId dim : op.loop) beside_value_.insert(name(dim));
        }
      }
    }
  }

  [[nodiscard]] bool is_value(const std::string& dimension) const {
    return means_value(dimension, network_);
  }

  /// Every dimension that a pattern means; a pattern that means none stays, to be refused.
  [[nodiscard]] std::vector<NamedSplit> named_one_by_one(
      const std::vector<NamedSplit>& splits) const {
    std::vector<NamedSplit> named;
    for (const NamedSplit& split : splits) {
      const std::size_t known = named.size();
      for (const Dimension& dimension : network_.dimensions) {
        if (!matches(split.dimension, dimension.name)) continue;
        named.push_back({dimension.name, split.parts, split.choices});
      }
      if (named.size() == known) named.push_back(split);
    }
    return named;
  }

  [[nodiscard]] const std::string& name(DimId dim) const { return network_.dimension(dim).name; }

  [[nodiscard]] std::vector<std::string> names_of(const std::vector<DimId>& dims) const {
    return transformed(dims, [&](const DimId dim) { return name(dim); });
  }

  /// Whether some operator, or some tensor between blocks, has both.
  [[nodiscard]] bool together(const std::string& a, const std::string& b) const {
    if (is_value(a)) return beside_value_.contains(b);
    if (is_value(b)) return beside_value_.contains(a);
    const auto both = [&](const std::vector<DimId>& dims) {
      const std::vector<std::string> names = names_of(dims);
      return contains(names, a) && contains(names, b);
    };
    return std::ranges::any_of(network_.blocks, [&](const Block& block) {
      return std::ranges::any_of(block.operators,
                                 [&](const Operator& op) { return both(op.loop); }) ||
             std::ranges::any_of(block.outputs,
                                 [&](TensorId id) { return both(block.tensor(id).dims); });
    });
  }

  std::optional<EntryFault> check(const TransformEntry& entry) {
    if (auto bad = check_selection(entry.what, network_)) return bad;
    if (!entry.what.copies.empty() && entry.places()) {
      return EntryFault{"copies beside split or pieces", "layers say which layers are meant"};
    }
    for (const auto* splits : {&entry.split, &entry.pieces}) {
      for (const NamedSplit& split : *splits) {
        if (splits == &entry.split && is_value(split.dimension)) continue;
        if (auto bad = check_dimension(split.dimension)) return bad;
      }
    }
    for (const NamedSplit& split : entry.split) {
      if (auto bad = join(split)) return bad;
    }
    for (const NamedSplit& split : entry.pieces) {
      if (!split.choices.empty()) {
        return EntryFault{fmt::format("several numbers of pieces of {}", split.dimension),
                          "plansearch search --plan finds one; predict takes one"};
      }
      if (split.parts == entry.pieces.front().parts) continue;
      return EntryFault{
          fmt::format("{} pieces of {} and {} of {}", entry.pieces.front().parts,
                      entry.pieces.front().dimension, split.parts, split.dimension),
          "the operators of a region run in as many pieces each; give a region an entry of its "
          "own"};
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<EntryFault> check_dimension(const std::string& dimension) const {
    std::vector<std::string> known = transformed(network_.dimensions, &Dimension::name);
    if (contains(known, dimension)) return std::nullopt;
    std::string hint = did_you_mean(dimension, known);
    if (hint.empty()) hint = fmt::format("its dimensions are {}", fmt::join(known, ", "));
    return EntryFault{fmt::format("{} has no dimension '{}'", network_.name, dimension),
                      std::move(hint)};
  }

  /// Finds the factor that splits a dimension, or makes one.
  std::optional<EntryFault> join(const NamedSplit& split) {
    for (const Group& group : groups_) {
      if (!contains(group.dimensions, split.dimension)) continue;
      if (group.parts == split.parts) return std::nullopt;
      return EntryFault{
          fmt::format("{} is split into {} and into {}", split.dimension, group.parts, split.parts),
          "one number of parts for a dimension"};
    }
    for (Group& group : groups_) {
      const bool apart = std::ranges::none_of(group.dimensions, [&](const std::string& other) {
        return together(other, split.dimension);
      });
      if (group.parts != split.parts || !apart) continue;
      group.dimensions.push_back(split.dimension);
      return std::nullopt;
    }
    groups_.push_back({split.parts, {split.dimension}});
    return std::nullopt;
  }

  [[nodiscard]] std::vector<NamedCut> cuts_of(const TransformEntry& entry,
                                              const std::vector<std::string>& had) const {
    std::vector<NamedCut> cuts;
    for (const NamedSplit& split : entry.split) {
      if (!contains(had, split.dimension)) continue;
      const auto group = std::ranges::find_if(
          groups_, [&](const Group& known) { return contains(known.dimensions, split.dimension); });
      FactorList factors;
      factors.push_back(static_cast<std::uint8_t>(group - groups_.begin()));
      cuts.push_back({split.dimension, factors});
    }
    return cuts;
  }

  static void add(std::vector<PlacementEntry>& entries, const std::string& op, const Block& block,
                  const TransformEntry& entry, std::vector<NamedCut> cut) {
    const std::string name = plain_block_name(block.name);
    for (PlacementEntry& known : entries) {
      if (op.empty() || known.cut != cut || known.layers != entry.what.layers) continue;
      if (known.blocks.front() == name) return known.operators.push_back(op);
    }
    PlacementEntry& made = entries.emplace_back();
    if (!op.empty()) made.operators = {op};
    made.blocks = {name};
    made.layers = entry.what.layers;
    made.cut = std::move(cut);
  }

  /// Whether some layer that is meant is of this block.
  [[nodiscard]] bool occurs(std::size_t block, const Selection& what) const {
    if (what.layers.empty()) return true;
    return std::ranges::any_of(copies_, [&](const BlockCopy& copy) {
      return copy.block == block && selects_copy(what, copy);
    });
  }

  std::optional<EntryFault> lower(const TransformEntry& entry) {
    bool found = false;
    for (std::size_t b = 0; b < network_.blocks.size(); ++b) {
      if (!occurs(b, entry.what)) continue;
      const Block& block = network_.blocks[b];
      std::vector<NamedCut> leaving;
      std::vector<std::string> region;
      for (const Operator& op : block.operators) {
        if (!selects(entry.what.of, block, op)) continue;
        const std::vector<std::string> had = names_of(op.loop);
        if (std::ranges::any_of(entry.pieces, [&](const NamedSplit& split) {
              return contains(had, split.dimension);
            })) {
          region.push_back(op.name);
        }
        std::vector<std::string> splits = had;
        if (!contains(had, std::string(kValueWord))) splits.emplace_back(kValueWord);
        std::vector<NamedCut> cuts = cuts_of(entry, splits);
        if (cuts.empty()) continue;
        for (const TensorId id : op.outputs) {
          if (!contains(block.outputs, id)) continue;
          for (NamedCut& cut : cuts_of(entry, names_of(block.tensor(id).dims))) {
            if (!contains(leaving, cut)) leaving.push_back(std::move(cut));
          }
        }
        add(names_.operators, op.name, block, entry, std::move(cuts));
        found = true;
      }
      if (!leaving.empty()) add(names_.edges, {}, block, entry, std::move(leaving));
      if (region.empty()) continue;
      std::vector<std::string> dimensions = transformed(entry.pieces, &NamedSplit::dimension);
      names_.regions.push_back({std::move(region),
                                {plain_block_name(block.name)},
                                entry.what.layers,
                                std::move(dimensions),
                                entry.pieces.front().parts,
                                entry.recompute});
      found = true;
    }
    if (found) return std::nullopt;
    return EntryFault{"no operator that it selects has these dimensions",
                      "plansearch show model NAME --graph lists operators and dimensions"};
  }

  std::vector<TransformEntry> entries_;
  const Network& network_;
  std::vector<BlockCopy> copies_;
  std::vector<Group> groups_;
  std::set<std::string> beside_value_;
  PlacementNames names_;
};

/// One more entry, whose pieces are so many.
TransformAlternative with_pieces(TransformAlternative known, TransformEntry entry, int pieces) {
  if (!known.words.empty()) known.words += ", ";
  const std::string& dimension = entry.pieces.front().dimension;
  known.words +=
      pieces == 1 ? dimension + " whole" : fmt::format("{} in {} pieces", dimension, pieces);
  if (pieces == 1) {
    entry.pieces.clear();
    entry.recompute = PieceRecompute::Kept;
  }
  for (NamedSplit& split : entry.pieces) split = {split.dimension, pieces, {}};
  if (entry.places() || !entry.degrees.empty()) known.entries.push_back(std::move(entry));
  return known;
}

/// Adds what the entry says of a copy; nothing where it means none of its operators.
std::optional<EntryFault> add_degrees(const TransformEntry& entry, const BlockCopy& copy,
                                      const Network& network, PinnedDegrees& degrees) {
  if (!selects_copy(entry.what, copy)) return std::nullopt;
  const Block& block = network.blocks[copy.block];
  const auto means = [&](const Operator& op) { return selects(entry.what.of, block, op); };
  const auto meant = std::ranges::count_if(block.operators, means);
  if (meant == 0) return std::nullopt;
  if (meant < std::ssize(block.operators)) {
    return EntryFault{fmt::format("degrees of a part of block {}", plain_block_name(block.name)),
                      "degrees are those of whole blocks; split says it of single operators"};
  }
  for (const DegreeRow& row : degree_table()) {
    const auto said = entry.degrees.get(row.degree);
    if (!said) continue;
    const int known = degrees.get(row.degree).value_or(*said);
    if (known != *said) {
      return EntryFault{
          fmt::format("{} of block {} is {} and {}", row.key, plain_block_name(block.name),
                      value_text(row.degree, known), value_text(row.degree, *said)),
          "one value for an operator: let the selectors of the two entries not overlap"};
    }
    degrees.pin(row.degree, *said);
  }
  return std::nullopt;
}

}  // namespace

std::variant<PlacementNames, EntryFault> placements_of(const std::vector<TransformEntry>& entries,
                                                       const Network& network) {
  return Lowering(entries, network).run();
}

std::variant<std::vector<TransformAlternative>, EntryFault> alternatives_of(
    const std::vector<TransformEntry>& entries) {
  constexpr std::size_t kMostAlternatives = 64;
  std::vector<TransformAlternative> all(1);
  for (std::size_t e = 0; e < entries.size(); ++e) {
    const TransformEntry& entry = entries[e];
    if (entry.pieces.empty() || entry.pieces.front().choices.empty()) {
      for (TransformAlternative& one : all) one.entries.push_back(entry);
      continue;
    }
    const std::vector<int>& choices = entry.pieces.front().choices;
    for (const NamedSplit& split : entry.pieces) {
      if (split.choices == choices) continue;
      return EntryFault{fmt::format("{} and {} have other numbers of pieces",
                                    entry.pieces.front().dimension, split.dimension),
                        "one list for all dimensions of an entry", e};
    }
    if (all.size() * choices.size() > kMostAlternatives) {
      return EntryFault{fmt::format("more than {} ways in all", kMostAlternatives),
                        "fewer numbers of pieces", e};
    }
    std::vector<TransformAlternative> next;
    for (const TransformAlternative& known : all) {
      for (const int pieces : choices) next.push_back(with_pieces(known, entry, pieces));
    }
    all = std::move(next);
  }
  return all;
}

std::variant<std::vector<PinnedDegrees>, EntryFault> degrees_of(
    const std::vector<TransformEntry>& entries, const Network& network) {
  const std::vector<BlockCopy> copies = block_copies(network);
  std::vector<PinnedDegrees> degrees(copies.size());
  for (std::size_t e = 0; e < entries.size(); ++e) {
    if (entries[e].degrees.empty()) continue;
    auto bad = check_selection(entries[e].what, network);
    for (std::size_t c = 0; !bad && c < copies.size(); ++c) {
      bad = add_degrees(entries[e], copies[c], network, degrees[c]);
    }
    if (!bad) continue;
    bad->entry = e;
    return *std::move(bad);
  }
  return degrees;
}

}  // namespace plansearch
