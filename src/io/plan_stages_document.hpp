// SPDX-License-Identifier: Apache-2.0
// The part of a plan file that spells a plan out: `order:` and `stages:` (docs/plan_format.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/document.hpp"
#include "plansearch/degree_set.hpp"
#include "plansearch/error.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/network.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/plan_stages.hpp"

namespace plansearch::io {

/// Where something stands in a file; says nothing of what it is.
struct FilePlace {
  SourceLocation where;
  bool operator==(const FilePlace&) const { return true; }
};

/// What one chunk of a stage holds: a number of layers, or blocks by name.
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
  bool operator==(const StageEntry&) const = default;
};

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

/// What a plan is in a file: layers where they say which blocks a stage holds, blocks elsewhere.
[[nodiscard]] StagesDocument to_stages(const ParallelPlan& plan, const Framework& framework,
                                       const Network& network);

[[nodiscard]] std::string to_yaml(const StagesDocument& stages);

}  // namespace plansearch::io
