// SPDX-License-Identifier: Apache-2.0
// The mesh of MaxText: every axis inside a node (ICI) and between nodes (DCN).
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "exporters/exporter.hpp"

namespace plansearch::exporters {

/// Fastest first, as in mesh_axes of configs/base.yml read from its end.
enum class MeshAxis : std::uint8_t { Expert, Tensor, Context, Fsdp, Pipeline, Data };
inline constexpr std::array<std::string_view, 6> kMeshAxes{"expert", "tensor",   "context",
                                                           "fsdp",   "pipeline", "data"};
struct MeshSizes {
  std::array<int, 6> inside{1, 1, 1, 1, 1, 1};
  std::array<int, 6> between{1, 1, 1, 1, 1, 1};
  bool fits = true;  ///< whether the node is filled by whole parts of axes
};

/// The axes of a plan on nodes (one node of all devices where the machine is one slice).
[[nodiscard]] MeshSizes mesh_of(const ExportRequest& request);

[[nodiscard]] bool on_tpu(const ExportRequest& request);

void start_maxtext(Reading& reading);
void settle_maxtext(Reading& reading);

}  // namespace plansearch::exporters
