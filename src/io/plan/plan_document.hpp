// SPDX-License-Identifier: Apache-2.0
// Plan files (plansearch/plan/v1): one plan, and what it was made for. The format is documented in
// docs/plan_format.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/document/document.hpp"
#include "plan/placements/transform.hpp"
#include "plan/stages/assign.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/network.hpp"
#include "plansearch/placements.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/plan_stages.hpp"
#include "plansearch/problem_request.hpp"
#include "plansearch/setting_table.hpp"

namespace plansearch::io {

/// One degree: a number in its range, a switch as true or false, or one of its words.
[[nodiscard]] int read_degree(const Node& node, Degree degree);
[[nodiscard]] std::string yaml_value(Degree degree, int value);
/// A double-quoted YAML scalar.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// The place of a value in a file, without the value.
struct FilePlace {
  SourceLocation where;
  bool operator==(const FilePlace&) const { return true; }
};

/// Content of one chunk of a stage: a number of layers, or blocks by name.
struct ChunkEntry {
  std::optional<std::int64_t> layers;
  std::vector<NamedBlocks> blocks;
  bool operator==(const ChunkEntry&) const = default;
};

struct StageEntry {
  PinnedDegrees degrees;  ///< none of `kPipelineDegrees`
  std::vector<ChunkEntry> chunks;
  std::optional<int> first_rank;
  FilePlace place;
  std::vector<int> devices{};  ///< all of its ranks, where the file names them
  bool operator==(const StageEntry&) const = default;
};

/// Entries of `assign:` that lie on the devices of all stages.
struct SharedDocument {
  std::vector<std::string> blocks;  ///< selectors
  std::vector<FilePlace> places;    ///< where they stand
  bool operator==(const SharedDocument& other) const { return blocks == other.blocks; }
};
/// Nothing where the file has none.
[[nodiscard]] std::optional<SharedDocument> read_shared(const Node& root);

/// `before:` of an order: passes by name.
struct RuleEntry {
  std::string first;
  std::string second;
  int later = 0;  ///< `second` is of a micro-batch so much later
  FilePlace place;
  bool operator==(const RuleEntry&) const = default;
};
/// `window:` and `before:` of an order that is found.
struct WindowDocument {
  std::vector<RuleEntry> rules;
  FilePlace place;
  bool operator==(const WindowDocument&) const = default;
};
[[nodiscard]] std::optional<WindowDocument> read_window(const Node& root);
/// "A before B" with micro-batches ("A(m+2) before B(m)"); nothing for other texts.
[[nodiscard]] std::optional<RuleEntry> parse_rule(std::string_view text);
/// "f2(m+1) before b0"
[[nodiscard]] std::string to_text(const RuleEntry& rule);

struct StagesDocument {
  std::optional<ScheduleId> schedule;
  int micro_batches = 1;
  std::vector<StageEntry> stages;
  FilePlace order;
  FilePlace place;
  bool operator==(const StagesDocument&) const = default;
};

/// The degrees a map may state, by their own names and the tensor degree by Megatron's.
[[nodiscard]] PinnedDegrees read_degrees(const Node& map, DegreeSet without);

/// `order:` and `stages:` of a plan file; nothing where it has no stages.
[[nodiscard]] std::optional<StagesDocument> read_stages(const Node& root);

/// A plan as stages of a file: layers where their number determines the blocks of a stage, blocks
/// by name otherwise.
[[nodiscard]] StagesDocument to_stages(const ParallelPlan& plan, const Framework& framework,
                                       const Network& network);

[[nodiscard]] std::string to_yaml(const StagesDocument& stages);
/// `order:` of the file.
void read_order(const Node& root, StagesDocument& document);
/// `document`: null for plans of degrees, `window`: null for the order of a schedule.
[[nodiscard]] std::string order_yaml(const StagesDocument* document, const WindowDocument* window);

struct PlacementsDocument {
  PlacementNames names;
  FilePlace place;
  std::vector<FilePlace> operators;  ///< where the entries stand
  std::vector<FilePlace> edges;
  std::vector<FilePlace> regions{};
  bool operator==(const PlacementsDocument& other) const { return names == other.names; }

  [[nodiscard]] const SourceLocation& where(const PlacementFault& fault) const;
};

/// `placements:` of a plan file; nothing where it has none.
[[nodiscard]] std::optional<PlacementsDocument> read_placements(const Node& root);
[[nodiscard]] std::string to_yaml(const PlacementNames& names);

/// `transform:` of a plan file.
struct TransformDocument {
  std::vector<TransformEntry> entries;
  std::vector<FilePlace> places;  ///< where they stand
  bool operator==(const TransformDocument& other) const { return entries == other.entries; }

  [[nodiscard]] const SourceLocation& where(const EntryFault& fault) const;
};
[[nodiscard]] std::optional<TransformDocument> read_transform(const Node& root);
[[nodiscard]] std::string to_yaml(const TransformDocument& transform);

/// `assign:` and `order:` of a plan file.
struct AssignDocument {
  std::vector<AssignEntry> entries;
  std::vector<FilePlace> places;  ///< where they stand
  StagesDocument order;           ///< its stages follow from the entries and the network
  bool operator==(const AssignDocument& other) const {
    return entries == other.entries && order == other.order;
  }
};
/// Nothing where the file assigns nothing.
[[nodiscard]] std::optional<AssignDocument> read_assign(const Node& root);
[[nodiscard]] std::string to_yaml(const AssignDocument& assign);

/// Whether an entry may select nothing: devices that idle.
enum class Nothing : std::uint8_t { Refused, Selectable };
/// `of`, `layers` and `copies` of an entry.
[[nodiscard]] Selection read_selection(const Node& node, Nothing nothing);
[[nodiscard]] std::vector<std::string> selection_yaml(const Selection& what);
/// "tp: 8" and the like, as parts of a map.
void add_degrees(const PinnedDegrees& degrees, std::vector<std::string>& parts);

/// "12", "0-11", or a list of them.
[[nodiscard]] std::vector<LayerRange> read_layers(const Node& node);

/// The content of a plan file. Everything but the schema may be absent; the command line or
/// defaults then decide.
struct PlanDocument {
  /// Settings and degrees, and the hashes that files had when the plan was written.
  ProblemRequest question;
  /// A list of stages in place of degrees.
  std::optional<StagesDocument> stages;
  /// Operators that are not cut by role.
  std::optional<PlacementsDocument> placements{};
  /// The same in other words, which need the network.
  std::optional<TransformDocument> transform{};
  /// An assignment in place of stages, in words that need the network.
  std::optional<AssignDocument> assign{};
  /// Shared devices, in addition to degrees, stages or `assign`.
  std::optional<SharedDocument> shared{};
  std::optional<WindowDocument> window{};

  bool operator==(const PlanDocument&) const = default;
};

/// The settings of a map, and its `degrees`.
[[nodiscard]] ProblemRequest read_question(const Node& map);

/// Reads a plan file, YAML or JSON. Throws InputError for anything wrong.
[[nodiscard]] PlanDocument read_plan_document(const std::filesystem::path& path);
[[nodiscard]] PlanDocument read_plan_document(const Node& root);

/// YAML text that `read_plan_document` reads back to the same document.
[[nodiscard]] std::string to_yaml(const PlanDocument& document);

/// The plan that stands at this rank, from 1, and the question it answers: settings that were
/// chosen then, and what the question came to. InputError for ranks the answer does not have, for
/// keys and values that no answer has, and for parts of it that contradict each other.
[[nodiscard]] PlanDocument read_ranked_plan(const Node& answer, std::size_t rank);

/// Whether an entry of `assign:` lies on the devices of all stages.
[[nodiscard]] bool is_shared(const Node& entry);
/// Whether all entries of the list, at least one, do.
[[nodiscard]] bool all_shared(const Node& assign);

/// The entries of a file of published plans (plansearch/recipes/v1), in its order. InputError for
/// anything wrong, with its place.
[[nodiscard]] std::vector<Recipe> read_recipes(const std::filesystem::path& path);

}  // namespace plansearch::io
