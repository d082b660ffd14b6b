// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/plan/plan_document.hpp"

namespace plansearch::io {
namespace {

constexpr int kMostParts = 1 << 20;

enum class Several : std::uint8_t { Refused, Allowed };

/// Parts by dimension; a list of them leaves the number to a search.
std::vector<NamedSplit> read_splits(const Node& node, Several several) {
  std::vector<NamedSplit> splits;
  for (const Node::Entry& entry : node.entries()) {
    NamedSplit& split = splits.emplace_back(NamedSplit{entry.key, 1, {}});
    if (several == Several::Refused || !entry.value.is_list()) {
      split.parts = entry.value.count(2, kMostParts);
      continue;
    }
    for (const Node& item : entry.value.items()) split.choices.push_back(item.count(1, kMostParts));
    if (split.choices.empty()) entry.value.fail("no number of pieces", "such as [1, 2, 4]");
  }
  return splits;
}

/// A word of degrees, or whether pieces run again.
void read_recompute(const Node& node, TransformEntry& entry) {
  const auto again = node.find("recompute");
  if (!again || !(again->text() == "true" || again->text() == "false")) return;
  if (entry.pieces.empty()) {
    again->fail("recompute without pieces", "of whole layers: none, selective or full");
  }
  if (again->boolean()) entry.recompute = PieceRecompute::RunAgain;
}

TransformEntry read_entry(const Node& node) {
  TransformEntry entry;
  entry.what = read_selection(node, Nothing::Refused);
  if (const auto split = node.find("split")) entry.split = read_splits(*split, Several::Refused);
  if (const auto pieces = node.find("pieces"))
    entry.pieces = read_splits(*pieces, Several::Allowed);
  read_recompute(node, entry);
  DegreeSet without = kPipelineDegrees;
  if (!entry.pieces.empty()) without.insert(Degree::Recompute);
  entry.degrees = read_degrees(node, without);
  if (!entry.places() && entry.degrees.empty()) {
    node.fail("a transform without split, pieces and degrees",
              "split: {DIMENSION: PARTS} over devices, pieces: {DIMENSION: PARTS} on one device, "
              "degrees such as tp: 8");
  }
  return entry;
}

std::string splits_yaml(const std::vector<NamedSplit>& splits) {
  std::vector<std::string> parts;
  for (const NamedSplit& split : splits) {
    const std::string number = split.choices.empty()
                                   ? fmt::format("{}", split.parts)
                                   : fmt::format("[{}]", fmt::join(split.choices, ", "));
    parts.push_back(fmt::format("{}: {}", in_quotes(split.dimension), number));
  }
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

}  // namespace

const SourceLocation& TransformDocument::where(const EntryFault& fault) const {
  return places[fault.entry].where;
}

Selection read_selection(const Node& node, Nothing nothing) {
  Selection what;
  const Node of = node.at("of");
  what.of = of.is_scalar() ? std::vector{of.text()} : of.texts();
  if (what.of.empty() && nothing == Nothing::Selectable) return what;
  if (what.of.empty()) of.fail("no operator", "\"*\", BLOCK, BLOCK/OPERATOR or */OPERATOR");
  if (const auto layers = node.find("layers")) what.layers = read_layers(*layers);
  if (const auto copies = node.find("copies")) what.copies = read_layers(*copies);
  return what;
}

std::vector<std::string> selection_yaml(const Selection& what) {
  std::vector<std::string> of;
  for (const std::string& selector : what.of) of.push_back(in_quotes(selector));
  std::vector<std::string> parts{fmt::format("of: [{}]", fmt::join(of, ", "))};
  const auto add = [&](std::string_view key, const std::vector<LayerRange>& numbers) {
    if (numbers.empty()) return;
    std::vector<std::string> ranges;
    for (const LayerRange& range : numbers) ranges.push_back(in_quotes(layers_text({range})));
    parts.push_back(fmt::format("{}: [{}]", key, fmt::join(ranges, ", ")));
  };
  add("layers", what.layers);
  add("copies", what.copies);
  return parts;
}

std::optional<TransformDocument> read_transform(const Node& root) {
  const auto node = root.find("transform");
  if (!node) return std::nullopt;
  TransformDocument document;
  for (const Node& item : node->items()) {
    document.places.push_back({item.where()});
    document.entries.push_back(read_entry(item));
  }
  if (document.entries.empty()) node->fail("no transform", "leave it out");
  return document;
}

std::string to_yaml(const TransformDocument& transform) {
  std::string text = "transform:\n";
  for (const TransformEntry& entry : transform.entries) {
    std::vector<std::string> parts = selection_yaml(entry.what);
    if (!entry.split.empty()) parts.push_back("split: " + splits_yaml(entry.split));
    if (!entry.pieces.empty()) parts.push_back("pieces: " + splits_yaml(entry.pieces));
    if (entry.recompute == PieceRecompute::RunAgain) parts.emplace_back("recompute: true");
    add_degrees(entry.degrees, parts);
    text += fmt::format("  - {{{}}}\n", fmt::join(parts, ", "));
  }
  return text;
}

}  // namespace plansearch::io
