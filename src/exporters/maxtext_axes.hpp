// SPDX-License-Identifier: Apache-2.0
// The mesh of MaxText: every axis inside a node (ICI) and between nodes (DCN).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace plansearch::exporters {

/// Fastest first, as in mesh_axes of configs/base.yml read from its end.
enum class MeshAxis : std::uint8_t { Expert, Tensor, Context, Fsdp, Pipeline, Data };
inline constexpr std::array<std::string_view, 6> kMeshAxes{"expert", "tensor",   "context",
                                                           "fsdp",   "pipeline", "data"};

}  // namespace plansearch::exporters
