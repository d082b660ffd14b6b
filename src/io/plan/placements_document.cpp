// SPDX-License-Identifier: Apache-2.0
#include "base/units.hpp"
#include "io/plan/plan_document.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/ranges.hpp"

namespace plansearch::io {
namespace {

/// Far beyond any machine.
constexpr int kMostFactorSize = 1 << 20;
constexpr std::size_t kMostListed = 20;

std::vector<std::string> read_words(const Node& node) {
  return node.is_scalar() ? std::vector{node.text()} : node.texts();
}

/// "12" or "0-11".
LayerRange read_layer_range(const Node& node) {
  const std::string text = node.text();
  const std::string_view all = text;
  const std::size_t dash = all.find('-');
  using Layer = decltype(LayerRange::first);
  const auto first = parse_as<Layer>(all.substr(0, dash));
  const auto last = dash == std::string::npos ? first : parse_as<Layer>(all.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first) {
    node.fail(fmt::format("'{}' is not a range of layers", text),
              "as 0-11, or 12; layers count from 0");
  }
  return {*first, *last};
}

std::uint8_t read_factor(const Node& node) {
  const std::string text = node.text();
  const auto number = text.starts_with('t') ? parse_as<std::uint8_t>(text.substr(1)) : std::nullopt;
  if (!number || *number >= kMostListed) {
    node.fail(fmt::format("'{}' is not a factor", text),
              "t0 is the innermost factor of the tensor group, t1 the next one, ...");
  }
  return *number;
}

FactorList read_factors(const Node& node) {
  if (node.is_scalar()) return {read_factor(node)};
  const std::vector<Node> items = node.items();
  if (items.size() > kMostListed) node.fail("too many factors", "each at most once");
  FactorList factors;
  for (const Node& item : items) factors.push_back(read_factor(item));
  return factors;
}

NamedCut read_cut(const Node::Entry& entry) {
  NamedCut cut{entry.key, FactorList{}};
  if (entry.value.is_scalar()) {
    if (entry.value.text() == "all") {
      cut.factors.reset();
    } else {
      cut.factors->push_back(read_factor(entry.value));
    }
    return cut;
  }
  cut.factors = read_factors(entry.value);
  return cut;
}

NamedSquare read_square(const Node& node) {
  for (const char* key : {"rows", "columns", "m", "n", "k"}) {
    if (node.find(key)) continue;
    node.fail(fmt::format("square: key '{}' is missing", key),
              "such as {rows: [t1], columns: [t0], m: sequence, n: hidden, k: ffn}: the factors of "
              "a side each, the dimensions of rows, contraction and columns");
  }
  return {read_factors(node.at("rows")), read_factors(node.at("columns")), node.at("m").text(),
          node.at("n").text(), node.at("k").text()};
}

/// The blocks and layers that an entry is about.
template <typename Entry>
void read_targets(const Node& node, Entry& entry) {
  if (const auto blocks = node.find("blocks")) entry.blocks = read_words(*blocks);
  if (const auto layers = node.find("layers")) entry.layers = read_layers(*layers);
}

/// Names, or nothing for the word that means all of them.
std::vector<std::string> read_operators(const Node& node, std::string_view all) {
  if (node.is_scalar() && node.text() == all) return {};
  std::vector<std::string> words = read_words(node);
  if (words.empty()) node.fail("no operator", fmt::format("names, or {}", all));
  return words;
}

PieceEntry read_region(const Node& node) {
  PieceEntry entry;
  if (const auto operators = node.find("operators")) {
    entry.operators = read_operators(*operators, "all");
  }
  read_targets(node, entry);
  entry.dimensions = read_words(node.at("dimensions"));
  if (entry.dimensions.empty()) node.at("dimensions").fail("no dimension");
  entry.pieces = node.at("pieces").count(2, kMostFactorSize);
  if (const auto again = node.find("recompute"); again && again->boolean()) {
    entry.recompute = PieceRecompute::RunAgain;
  }
  return entry;
}

PlacementEntry read_entry(const Node& node, bool edge) {
  PlacementEntry entry;
  if (!edge) entry.operators = read_operators(node.at("operators"), "others");
  read_targets(node, entry);
  for (const Node::Entry& dimension : node.at("cut").entries()) {
    entry.cut.push_back(read_cut(dimension));
  }
  if (edge) return entry;
  if (const auto square = node.find("square")) {
    if (square->is_list()) {
      if (square->items().empty()) square->fail("no square", "one or several, or leave it out");
      for (const Node& item : square->items()) entry.squares.push_back(read_square(item));
    } else {
      entry.squares.push_back(read_square(*square));
    }
  }
  if (const auto ring = node.find("ring")) {
    entry.ring = {read_factors(ring->at("factors")), ring->at("rows").text()};
  }
  return entry;
}

std::string list_text(const std::vector<std::string>& words) {
  return fmt::format("[{}]", fmt::join(transformed(words, in_quotes), ", "));
}

std::string factors_yaml(const FactorList& list) {
  std::vector<std::string> factors;
  for (const std::uint8_t f : list) factors.push_back(fmt::format("t{}", f));
  return fmt::format("[{}]", fmt::join(factors, ", "));
}

std::string cut_yaml(const NamedCut& cut) {
  if (!cut.factors) return cut.dimension + ": all";
  return fmt::format("{}: {}", cut.dimension, factors_yaml(*cut.factors));
}

template <typename Entry>
void add_targets(const Entry& entry, std::vector<std::string>& parts) {
  if (!entry.blocks.empty()) parts.push_back("blocks: " + list_text(entry.blocks));
  if (entry.layers.empty()) return;
  std::vector<std::string> ranges;
  for (const LayerRange& range : entry.layers) ranges.push_back(in_quotes(layers_text({range})));
  parts.push_back(fmt::format("layers: [{}]", fmt::join(ranges, ", ")));
}

std::string region_text(const PieceEntry& entry) {
  std::vector<std::string> parts{"operators: " +
                                 (entry.operators.empty() ? "all" : list_text(entry.operators))};
  add_targets(entry, parts);
  parts.push_back("dimensions: " + list_text(entry.dimensions));
  parts.push_back(fmt::format("pieces: {}", entry.pieces));
  if (entry.recompute == PieceRecompute::RunAgain) parts.emplace_back("recompute: true");
  return fmt::format("    - {{{}}}\n", fmt::join(parts, ", "));
}

std::string entry_text(const PlacementEntry& entry, bool edge) {
  std::vector<std::string> parts;
  if (!edge) {
    parts.push_back("operators: " +
                    (entry.operators.empty() ? "others" : list_text(entry.operators)));
  }
  add_targets(entry, parts);
  parts.push_back(fmt::format("cut: {{{}}}", fmt::join(transformed(entry.cut, cut_yaml), ", ")));
  std::vector<std::string> squares = transformed(entry.squares, [&](const NamedSquare& square) {
    return fmt::format("{{rows: {}, columns: {}, m: {}, n: {}, k: {}}}", factors_yaml(square.rows),
                       factors_yaml(square.columns), square.m, square.n, square.k);
  });
  if (squares.size() == 1) parts.push_back("square: " + squares.front());
  if (squares.size() > 1) parts.push_back(fmt::format("square: [{}]", fmt::join(squares, ", ")));
  if (entry.ring) {
    parts.push_back(fmt::format("ring: {{rows: {}, factors: {}}}", entry.ring->rows,
                                factors_yaml(entry.ring->factors)));
  }
  return fmt::format("    - {{{}}}\n", fmt::join(parts, ", "));
}

}  // namespace

std::vector<LayerRange> read_layers(const Node& node) {
  if (node.is_scalar()) return {read_layer_range(node)};
  return transformed(node.items(), read_layer_range);
}

const SourceLocation& PlacementsDocument::where(const PlacementFault& fault) const {
  const std::vector<FilePlace>& places = fault.list == PlacementList::Edges     ? edges
                                         : fault.list == PlacementList::Regions ? regions
                                                                                : operators;
  const bool written = fault.entry && *fault.entry < places.size();  // not made from a flag
  return written ? places[*fault.entry].where : place.where;
}

std::optional<PlacementsDocument> read_placements(const Node& root) {
  const auto node = root.find("placements");
  if (!node) return std::nullopt;
  PlacementsDocument document;
  document.place = {node->where()};
  if (const auto factors = node->find("factors")) {
    for (const Node& item : factors->items()) {
      document.names.factors.push_back(item.count(2, kMostFactorSize));
    }
    if (document.names.factors.size() > kMostListed) {
      factors->fail("too many factors", "they multiply to the tensor degree");
    }
  }
  const auto read_list = [&](std::string_view key, std::vector<PlacementEntry>& entries,
                             std::vector<FilePlace>& places) {
    const auto list = node->find(key);
    if (!list) return;
    for (const Node& item : list->items()) {
      places.push_back({item.where()});
      entries.push_back(read_entry(item, key == "edges"));
    }
  };
  read_list("operators", document.names.operators, document.operators);
  read_list("edges", document.names.edges, document.edges);
  if (const auto regions = node->find("regions")) {
    for (const Node& item : regions->items()) {
      document.regions.push_back({item.where()});
      document.names.regions.push_back(read_region(item));
    }
  }
  return document;
}

std::string to_yaml(const PlacementNames& names) {
  std::string text = "placements:\n";
  text += fmt::format("  factors: [{}]\n", fmt::join(names.factors, ", "));
  if (!names.operators.empty()) text += "  operators:\n";
  for (const PlacementEntry& entry : names.operators) text += entry_text(entry, false);
  if (!names.edges.empty()) text += "  edges:\n";
  for (const PlacementEntry& entry : names.edges) text += entry_text(entry, true);
  if (!names.regions.empty()) text += "  regions:\n";
  for (const PieceEntry& entry : names.regions) text += region_text(entry);
  return text;
}

}  // namespace plansearch::io
