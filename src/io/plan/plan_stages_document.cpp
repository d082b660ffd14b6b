// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/ranges.hpp"
#include "io/plan/plan_document.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch::io {
namespace {

/// Far beyond any network, far below where sums overflow.
constexpr IntegerRange kLayers{0, 1'000'000};

NamedBlocks read_blocks(const Node& node) {
  if (node.is_scalar()) return {node.text(), 1};
  return {node.at("block").text(), node.at("count").integer(kLayers)};
}

/// The chunk that `node` describes by `layers` or `blocks`.
ChunkEntry read_chunk(const Node& node) {
  ChunkEntry chunk;
  const auto layers = node.find("layers");
  const auto blocks = node.find("blocks");
  if (layers && blocks) blocks->fail("layers and blocks both say what is held", "keep one of them");
  if (!layers && !blocks) node.fail("its content is missing", "give layers: N, or blocks: by name");
  if (layers) chunk.layers = layers->integer(kLayers);
  if (blocks) {
    for (const Node& item : blocks->items()) chunk.blocks.push_back(read_blocks(item));
  }
  return chunk;
}

StageEntry read_stage(const Node& node) {
  StageEntry stage;
  stage.place = {node.where()};
  stage.degrees = read_degrees(node, kPipelineDegrees);
  if (const auto rank = node.find("first_rank")) stage.first_rank = rank->count(0);
  const auto chunks = node.find("chunks");
  if (!chunks) {
    stage.chunks.push_back(read_chunk(node));
    return stage;
  }
  for (const std::string_view key : {"layers", "blocks"}) {
    if (const auto other = node.find(key)) {
      other->fail(fmt::format("{} beside chunks", key), "every chunk has its own");
    }
  }
  for (const Node& item : chunks->items()) stage.chunks.push_back(read_chunk(item));
  if (stage.chunks.empty()) chunks->fail("no chunk", "leave chunks out for a stage of one");
  return stage;
}

/// Whether the numbers of layers alone lead back to the groups of the plan.
bool layers_suffice(const ParallelPlan& plan, const Network& network) {
  std::vector<std::int64_t> layers;
  for (const OperatorGroup& group : plan.assignment->groups) {
    layers.push_back(layers_of({{}, {group.blocks}, {}}, network));
  }
  const auto placed = place_layers(network, layers);
  const auto* runs = std::get_if<StageRuns>(&placed);
  if (runs == nullptr) return false;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const auto& blocks = plan.assignment->groups[k].blocks;
    if ((*runs)[k] != blocks || blocks.empty()) return false;
  }
  return true;
}

std::string to_yaml(const ChunkEntry& chunk) {
  if (chunk.layers) return fmt::format("layers: {}", *chunk.layers);
  std::vector<std::string> blocks = transformed(chunk.blocks, [&](const NamedBlocks& run) {
    return fmt::format("{{block: {}, count: {}}}", in_quotes(run.block), run.count);
  });
  return fmt::format("blocks: [{}]", fmt::join(blocks, ", "));
}

std::string to_yaml(const StageEntry& stage) {
  std::vector<std::string> parts;
  if (stage.chunks.size() == 1) {
    parts.push_back(to_yaml(stage.chunks.front()));
  } else {
    std::vector<std::string> chunks = transformed(stage.chunks, [&](const ChunkEntry& chunk) {
      return fmt::format("{{{}}}", to_yaml(chunk));
    });
    parts.push_back(fmt::format("chunks: [{}]", fmt::join(chunks, ", ")));
  }
  if (stage.first_rank) parts.push_back(fmt::format("first_rank: {}", *stage.first_rank));
  add_degrees(stage.degrees, parts);
  return fmt::format("  - {{{}}}\n", fmt::join(parts, ", "));
}

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

void add_degrees(const PinnedDegrees& degrees, std::vector<std::string>& parts) {
  for (const DegreeRow& row : degree_table()) {
    const auto value = degrees.get(row.degree);
    if (!value) continue;
    parts.push_back(
        fmt::format("{}: {}", key_of(row.degree, degrees), yaml_value(row.degree, *value)));
  }
}

void read_order(const Node& root, StagesDocument& document) {
  const Node order = root.at("order");
  document.order = {order.where()};
  document.micro_batches = order.at("micro_batches").count();
  if (const auto schedule = order.find("schedule")) {
    document.schedule = static_cast<ScheduleId>(read_degree(*schedule, Degree::Schedule));
  }
}

std::optional<StagesDocument> read_stages(const Node& root) {
  const auto stages = root.find("stages");
  const auto order = root.find("order");
  const auto assign = root.find("assign");
  if (assign && !all_shared(*assign)) {
    if (stages) stages->fail("stages beside assign", "two ways to say the same: keep one");
    return std::nullopt;
  }
  if (!stages) {
    const bool found = order && (order->find("before") || order->find("window"));
    if (order && !found) {
      order->fail("there are no stages to order",
                  "a plan of degrees has schedule and micro_batch; before and window go with it");
    }
    return std::nullopt;
  }
  if (const auto degrees = root.find("degrees")) {
    degrees->fail("stages are given too: two ways to say the same plan",
                  "keep degrees where all stages are alike, or the stages");
  }
  StagesDocument document;
  document.place = {stages->where()};
  read_order(root, document);
  for (const Node& item : stages->items()) document.stages.push_back(read_stage(item));
  if (document.stages.empty()) stages->fail("no stage", "list at least one");
  return document;
}

StagesDocument to_stages(const ParallelPlan& plan, const Framework& framework,
                         const Network& network) {
  StagesDocument document;
  document.schedule = plan.order.schedule;
  document.micro_batches = plan.order.micro_batches;
  const bool by_layers = layers_suffice(plan, network);
  for (const StageDescription& stage : stages_of(plan, framework)) {
    StageEntry entry;
    entry.first_rank = stage.first_rank;
    entry.degrees = to_pinned(stage.degrees);
    for (const DegreeRow& row : degree_table()) {
      // Absent degrees are completed as in `degrees:`; ZeRO depends on the framework.
      const bool neutral = row.get(stage.degrees) == row.get(PlanDegrees{});
      const bool said = row.degree == Degree::Zero || row.degree == kTensorAlias.degree;
      if (kPipelineDegrees.contains(row.degree) || (neutral && !said)) {
        entry.degrees.release(row.degree);
      }
    }
    for (const auto& chunk : stage.chunks) {
      ChunkEntry& held = entry.chunks.emplace_back();
      if (by_layers)
        held.layers = layers_of({{}, {chunk}, {}}, network);
      else
        held.blocks = named_blocks(chunk, network);
    }
    document.stages.push_back(std::move(entry));
  }
  return document;
}

std::string order_yaml(const StagesDocument* document, const WindowDocument* window) {
  std::string text = "order:\n";
  if (document != nullptr && document->schedule) {
    text += fmt::format("  schedule: {}\n", to_text(*document->schedule));
  }
  if (document != nullptr) text += fmt::format("  micro_batches: {}\n", document->micro_batches);
  if (window == nullptr) return text;
  if (window->rules.empty()) return text + "  window: true\n";
  text += "  before:\n";
  for (const RuleEntry& rule : window->rules) {
    text += fmt::format("    - {}\n", in_quotes(to_text(rule)));
  }
  return text;
}

std::string to_yaml(const StagesDocument& document) {
  std::string text = "stages:\n";
  for (const StageEntry& stage : document.stages) text += to_yaml(stage);
  return text;
}

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
  std::vector<std::string> parts{
      fmt::format("of: [{}]", fmt::join(transformed(what.of, in_quotes), ", "))};
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
