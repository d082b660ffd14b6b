// SPDX-License-Identifier: Apache-2.0
// The table of schedules. A schedule is one file in orders/, one row here and one test; nothing
// else in the program knows it by name.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "schedule/compute_order.hpp"
#include "schedule/pipeline.hpp"
#include "schedule/stage_places.hpp"

namespace plansearch {

/// How many chunks of the model a device may hold.
struct ChunkRange {
  int fewest = 1;
  std::optional<int> most = 1;  ///< absent: as many as there are layers
  [[nodiscard]] bool contains(int chunks) const {
    return chunks >= fewest && (!most || chunks <= *most);
  }
};

struct Schedule {
  std::string_view name;
  std::vector<std::string_view> aliases;
  std::string_view summary;  ///< the order in one line, for users
  const Placement* placement = nullptr;
  ChunkRange chunks;
  WeightGradients weight_gradients = WeightGradients::Fused;
  ComputeOrder (*order)(const PipelineShape& shape) = nullptr;  ///< needs a legal shape
};

[[nodiscard]] const Schedule& schedule_row(ScheduleId id);
/// Whether the order runs input and weight gradients as pieces of their own.
[[nodiscard]] bool splits_backward(ScheduleId id);

}  // namespace plansearch
