// SPDX-License-Identifier: Apache-2.0
// Where the virtual stages of a pipeline live.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace plansearch {

struct PipelineShape;

/// Where one virtual stage lives.
struct StagePlace {
  int device = 0;
  int chunk = 0;
  bool operator==(const StagePlace&) const = default;
};

/// A rule from virtual stages to devices. On every device the chunks count up in the order in which
/// micro-batches pass them. Replicas of the network follow one another: each has stages * chunks
/// virtual stages of its own and an equal share of the micro-batches.
struct StageMapping {
  std::string_view name;
  std::string_view meaning;
  std::function<std::vector<StagePlace>(int stages, int chunks)> places;
  int replicas = 1;
};

/// Virtual stage k on device k % stages.
[[nodiscard]] const StageMapping& looped_mapping();
/// There and back: 0, 1, ..., p - 1, p - 1, ..., 1, 0, and so on. Two chunks make a V.
[[nodiscard]] const StageMapping& snake_mapping();
/// Two replicas of the network in opposite directions: device d holds stage d of the first and
/// stage p - 1 - d of the second.
[[nodiscard]] const StageMapping& bidirectional_mapping();

/// By virtual stage, for the placement of the shape. Kept for the whole run of the program.
[[nodiscard]] std::span<const StagePlace> stage_places(const PipelineShape& shape);

}  // namespace plansearch
