// SPDX-License-Identifier: Apache-2.0
// The devices as a grid of named axes, and the process groups the axes form.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace plansearch {

/// Axes by the role they play, not by a paper's letters. A dense and an expert grid are two views
/// of the same ranks: (In, Out, Depth, Context, Data) and (ExpertTensor, Expert, ExpertData).
enum class Axis : std::uint8_t {
  In,            ///< contraction of the first matmul of a pair (AxoNN: forward all-reduce)
  Out,           ///< Megatron's tensor parallelism (AxoNN: backward all-reduce)
  Depth,         ///< weight shard and batch (AxoNN's z)
  Context,       ///< sequence
  Data,          ///< replicas over the batch
  Pipeline,
  ExpertTensor,
  Expert,
  ExpertData,
};
inline constexpr std::size_t kAxisCount = 9;
[[nodiscard]] std::string_view to_text(Axis axis);

/// A process group of `size` ranks, `stride` apart: what one axis of the mesh forms.
struct AxisExtent {
  int size = 1;
  int stride = 1;
  bool operator==(const AxisExtent&) const = default;
};

/// Extents of every axis. Immutable once built by `make_device_mesh`.
struct DeviceMesh {
  std::array<AxisExtent, kAxisCount> axes{};
  [[nodiscard]] const AxisExtent& operator[](Axis axis) const {
    return axes[static_cast<std::size_t>(axis)];
  }
  [[nodiscard]] AxisExtent& operator[](Axis axis) { return axes[static_cast<std::size_t>(axis)]; }
  bool operator==(const DeviceMesh&) const = default;
};

}  // namespace plansearch
