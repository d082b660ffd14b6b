// SPDX-License-Identifier: Apache-2.0
// The devices as a grid of named axes, and the process groups the axes form.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "plansearch/axis.hpp"
#include "plansearch/degrees.hpp"

namespace plansearch {

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

  /// Product of the sizes of the axes in `axes`.
  [[nodiscard]] int size(AxisSet axes) const;
  /// The axes of `axes` that have more than one rank.
  [[nodiscard]] AxisSet active(AxisSet axes) const;
};

/// Builds the mesh of a plan. `rank_order` names the dense axes, fastest first; an axis it leaves
/// out must have one rank. The expert grid folds the ranks of one pipeline stage (data x context x
/// tensor) with ExpertTensor fastest, then Expert, then ExpertData, as Megatron's does.
[[nodiscard]] DeviceMesh make_device_mesh(const PlanDegrees& plan,
                                          std::span<const Axis> rank_order);

/// The process group that several axes form together: nested extents, smallest stride first.
/// Neighbouring axes without a gap are one extent, so that most groups have exactly one.
struct ProcessGroup {
  std::array<AxisExtent, 4> extents{};
  int count = 0;
  [[nodiscard]] int size() const;
  bool operator==(const ProcessGroup&) const = default;
};
[[nodiscard]] ProcessGroup process_group(const DeviceMesh& mesh, AxisSet axes);

}  // namespace plansearch
