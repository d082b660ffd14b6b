// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/plan_document.hpp"

namespace plansearch::io {
namespace {

constexpr int kMostParts = 1 << 20;

std::vector<NamedSplit> read_splits(const Node& node) {
  std::vector<NamedSplit> splits;
  for (const Node::Entry& entry : node.entries()) {
    splits.push_back({entry.key, entry.value.count(2, kMostParts)});
  }
  return splits;
}

TransformEntry read_entry(const Node& node) {
  TransformEntry entry;
  const Node of = node.at("of");
  entry.of = of.is_scalar() ? std::vector{of.text()} : of.texts();
  if (entry.of.empty()) of.fail("no operator", "\"*\", BLOCK, BLOCK/OPERATOR or */OPERATOR");
  if (const auto layers = node.find("layers")) entry.layers = read_layers(*layers);
  if (const auto split = node.find("split")) entry.split = read_splits(*split);
  if (const auto pieces = node.find("pieces")) entry.pieces = read_splits(*pieces);
  if (entry.split.empty() && entry.pieces.empty()) {
    node.fail("a transform without split and pieces",
              "split: {DIMENSION: PARTS} over devices, pieces: {DIMENSION: PARTS} on one device");
  }
  const auto again = node.find("recompute");
  if (!again) return entry;
  if (entry.pieces.empty()) {
    again->fail("recompute without pieces", "whole layers: recompute among the degrees");
  }
  if (again->boolean()) entry.recompute = PieceRecompute::RunAgain;
  return entry;
}

std::string splits_yaml(const std::vector<NamedSplit>& splits) {
  std::vector<std::string> parts;
  for (const NamedSplit& split : splits) {
    parts.push_back(fmt::format("{}: {}", split.dimension, split.parts));
  }
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

}  // namespace

const SourceLocation& TransformDocument::where(const TransformFault& fault) const {
  return places[fault.entry].where;
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
    std::vector<std::string> of;
    for (const std::string& selector : entry.of) of.push_back(in_quotes(selector));
    std::vector<std::string> parts{fmt::format("of: [{}]", fmt::join(of, ", "))};
    if (!entry.layers.empty()) {
      std::vector<std::string> ranges;
      for (const LayerRange& range : entry.layers) {
        ranges.push_back(in_quotes(layers_text({range})));
      }
      parts.push_back(fmt::format("layers: [{}]", fmt::join(ranges, ", ")));
    }
    if (!entry.split.empty()) parts.push_back("split: " + splits_yaml(entry.split));
    if (!entry.pieces.empty()) parts.push_back("pieces: " + splits_yaml(entry.pieces));
    if (entry.recompute == PieceRecompute::RunAgain) parts.emplace_back("recompute: true");
    text += fmt::format("  - {{{}}}\n", fmt::join(parts, ", "));
  }
  return text;
}

}  // namespace plansearch::io
