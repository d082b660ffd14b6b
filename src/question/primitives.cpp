// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "plan/stages/gangs.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "question/resolve_plan.hpp"

namespace plansearch {
namespace {

int product_of(const std::vector<int>& factors) {
  int product = 1;
  for (const int factor : factors) product *= factor;
  return product;
}

void pin_missing(PinnedDegrees& degrees, const PinnedDegrees& more) {
  for (const DegreeRow& row : degree_table()) {
    const auto value = more.get(row.degree);
    if (value && !degrees.has(row.degree)) degrees.pin(row.degree, *value);
  }
}

/// The single operators of the transform, as placements; the devices that share operators
/// follow from them. Nothing where it says none.
std::optional<io::PlacementsDocument> placements_in(const io::TransformDocument& transform,
                                                    const Network& network) {
  auto made = placements_of(transform.entries, network);
  if (const auto* fault = std::get_if<EntryFault>(&made)) {
    throw InputError(transform.where(*fault), fault->message, fault->hint);
  }
  const auto places = std::ranges::find_if(
      transform.entries, [](const TransformEntry& entry) { return entry.places(); });
  if (places == transform.entries.end()) return std::nullopt;
  io::PlacementsDocument document;
  document.names = std::get<PlacementNames>(std::move(made));
  document.place = transform.places.front();
  return document;
}

std::vector<PinnedDegrees> degrees_in(const std::optional<io::TransformDocument>& transform,
                                      const Network& network) {
  static const std::vector<TransformEntry> kNone;
  auto made = degrees_of(transform ? transform->entries : kNone, network);
  if (const auto* fault = std::get_if<EntryFault>(&made)) {
    throw InputError(transform->where(*fault), fault->message, fault->hint);
  }
  return std::get<std::vector<PinnedDegrees>>(std::move(made));
}

/// The plain names of the blocks at these places.
std::vector<NamedBlocks> blocks_at(const std::vector<std::size_t>& places,
                                   const std::vector<BlockCopy>& copies, const Network& network) {
  std::vector<BlockRun> runs;
  for (const std::size_t place : places) runs.push_back({copies[place].block, 1});
  return named_blocks(runs, network);
}

/// The blocks of the stage, and the degrees that all of them have.
io::StageEntry stage_entry(const AssignedStage& stage, const io::FilePlace& place,
                           const std::vector<PinnedDegrees>& degrees, const Network& network) {
  const std::vector<BlockCopy> copies = block_copies(network);
  io::StageEntry entry;
  entry.place = place;
  entry.first_rank = stage.devices.front();
  entry.devices = stage.devices;
  bool first = true;
  for (const std::vector<std::size_t>& chunk : stage.chunks) {
    entry.chunks.push_back({{}, blocks_at(chunk, copies, network)});
    for (const std::size_t at : chunk) {
      if (first) entry.degrees = degrees[at];
      first = false;
      if (degrees[at] == entry.degrees) continue;
      throw InputError(place.where,
                       fmt::format("blocks of one stage are split as ({}) and as ({})",
                                   to_text(entry.degrees), to_text(degrees[at])),
                       "one transform for all blocks on a set of devices");
    }
  }
  return entry;
}

bool is_idle(const std::vector<std::vector<std::size_t>>& chunks) {
  return std::ranges::all_of(chunks, [](const auto& chunk) { return chunk.empty(); });
}

/// Stages of a file that assigns, with the degrees that its transform gives to what they hold. One
/// that idles has those of the stage in front, the first one those of the network's first block.
io::StagesDocument stages_in(const io::AssignDocument& assign,
                             const std::vector<PinnedDegrees>& degrees, int factors,
                             const Network& network, const std::vector<bool>& shared) {
  auto made = stages_of(assign.entries, network, shared);
  if (const auto* fault = std::get_if<EntryFault>(&made)) {
    throw InputError(assign.places[fault->entry].where, fault->message, fault->hint);
  }
  io::StagesDocument document = assign.order;
  for (const AssignedStage& stage : std::get<std::vector<AssignedStage>>(made)) {
    io::StageEntry entry = stage_entry(stage, assign.places[stage.entry], degrees, network);
    if (is_idle(stage.chunks)) {
      entry.degrees = document.stages.empty() ? degrees.front() : document.stages.back().degrees;
    }
    if (factors > 1 && !entry.degrees.has(Degree::TensorOut)) {
      entry.degrees.pin(Degree::TensorOut, factors);
    }
    document.stages.push_back(std::move(entry));
  }
  return document;
}

/// The degrees of a file that assigns nothing.
void take_degrees(const std::vector<PinnedDegrees>& degrees, int factors, PlanRequest& asked) {
  PinnedDegrees& pinned = asked.request.degrees;
  if (!asked.transform) return;
  const PinnedDegrees& first = degrees.front();
  const bool alike =
      std::ranges::all_of(degrees, [&](const PinnedDegrees& one) { return one == first; });
  const SourceLocation& where = asked.transform->places.front().where;
  if (!alike) {
    throw InputError(where, "blocks differ in their degrees, and no device is assigned",
                     "assign: [{of: SELECTOR, devices: 0-7}, ...] says where each lies");
  }
  if (asked.stages && !first.empty()) {
    throw InputError(where, "degrees beside stages", "stages have degrees of their own");
  }
  pin_missing(pinned, first);
  if (!asked.stages && factors > 1 && !pinned.has(Degree::TensorOut)) {
    pinned.pin(Degree::TensorOut, factors);
  }
}

/// One entry for all stages that have the same degrees.
std::vector<TransformEntry> transform_entries(const io::StagesDocument& stages,
                                              const ParallelPlan& plan, const Network& network) {
  const auto held = places_of(plan);
  std::vector<PinnedDegrees> known;
  std::vector<std::vector<std::size_t>> places;
  for (std::size_t s = 0; s < held.size(); ++s) {
    const auto same = std::ranges::find(known, stages.stages[s].degrees);
    const auto k = static_cast<std::size_t>(same - known.begin());
    if (same == known.end()) {
      known.push_back(stages.stages[s].degrees);
      places.emplace_back();
    }
    for (const auto& chunk : held[s]) places[k].insert(places[k].end(), chunk.begin(), chunk.end());
  }
  std::vector<TransformEntry> entries;
  for (std::size_t k = 0; k < known.size(); ++k) {
    std::ranges::sort(places[k]);
    for (Selection& what : selections_of(places[k], network)) {
      TransformEntry& entry = entries.emplace_back();
      entry.what = std::move(what);
      entry.degrees = known[k];
    }
  }
  return entries;
}

/// Regions as transforms, where nothing else is placed: an entry for each.
void add_regions(io::PlanDocument& document) {
  if (!document.placements) return;
  const PlacementNames& names = document.placements->names;
  if (!names.operators.empty() || !names.edges.empty()) return;
  for (const PieceEntry& region : names.regions) {
    TransformEntry& entry = document.transform->entries.emplace_back();
    for (const std::string& op : region.operators) {
      entry.what.of.push_back(region.blocks.front() + "/" + op);
    }
    entry.what.layers = region.layers;
    for (const std::string& dimension : region.dimensions) {
      entry.pieces.push_back({dimension, region.pieces, {}});
    }
    entry.recompute = region.recompute;
  }
  document.placements.reset();
}

}  // namespace

PlanRequest without_primitives(PlanRequest asked, const Network& network) {
  int factors = 1;
  if (asked.transform) {
    auto placements = placements_in(*asked.transform, network);
    if (placements && asked.placements) {
      throw InputError(asked.placements->place.where, "placements beside transform",
                       "two ways to say the same: keep one");
    }
    if (placements) {
      factors = product_of(placements->names.factors);
      asked.placements = std::move(placements);
    }
  }
  const std::vector<PinnedDegrees> degrees = degrees_in(asked.transform, network);
  if (asked.assign) {
    std::vector<bool> shared;
    if (asked.shared) {
      check_shared(*asked.shared, network);
      shared = selected_copies(asked.shared->blocks, network);
    }
    asked.stages = stages_in(*asked.assign, degrees, factors, network, shared);
  } else {
    take_degrees(degrees, factors, asked);
  }
  asked.transform.reset();
  asked.assign.reset();
  return asked;
}

void add_primitives(const ResolvedPlan& given, io::StagesDocument stages,
                    io::PlanDocument& document) {
  const Network& network = *given.problem.network;
  const ParallelPlan plan = without_gangs(given.plan, network);
  const auto held = places_of(plan);
  const OperatorGroup& first = plan.assignment->groups.front();
  for (std::size_t s = 0; s < held.size(); ++s) {
    const std::size_t like = s == 0 ? static_cast<std::size_t>(first.position) : s - 1;
    if (!is_idle(held[s]) || stages.stages[s].degrees == stages.stages[like].degrees) continue;
    throw InputError({}, fmt::format("stage {} holds nothing, and has degrees of its own", s),
                     "transform says the degrees of what stages hold: --write-stages writes such "
                     "plans");
  }
  std::vector<bool> shared;
  if (!given.shared.empty()) shared = selected_copies(given.shared, network);
  document.transform = io::TransformDocument{transform_entries(stages, plan, network), {}};
  add_regions(document);
  stages.stages.clear();
  document.assign =
      io::AssignDocument{assign_entries(plan, network, shared), {}, std::move(stages)};
}

}  // namespace plansearch
