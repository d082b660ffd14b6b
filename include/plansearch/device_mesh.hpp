// SPDX-License-Identifier: Apache-2.0
// The devices as factors of the ranks, the roles those play, and the process groups they form.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "plansearch/axis.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/fixed_vector.hpp"

namespace plansearch {

/// `size` ranks, `stride` apart.
struct AxisExtent {
  int size = 1;
  int stride = 1;
  bool operator==(const AxisExtent&) const = default;
};

/// The ranks of a process group: nested extents, smallest stride first, those that touch merged.
/// Rank = sum of i_k * stride_k, i_k < size_k. Every `period` ranks hold sister groups that lie
/// alike, `world` ranks in all.
struct ProcessGroup {
  static constexpr std::size_t kMaxExtents = 8;
  FixedVector<AxisExtent, kMaxExtents> extents;
  int period = 1;
  int world = 1;

  ProcessGroup() = default;
  /// One extent, the only period.
  ProcessGroup(int size, int stride);
  ProcessGroup(AxisExtent extent) : ProcessGroup(extent.size, extent.stride) {}
  [[nodiscard]] int size() const;
  /// Number of ranks from the first to the last, both counted.
  [[nodiscard]] int span() const;
  /// Appends an extent whose stride is no smaller than the period.
  void nest(AxisExtent extent);
  bool operator==(const ProcessGroup&) const = default;
};

/// A role as the factors of the mesh that make it up, one bit each.
struct MeshRole {
  std::uint16_t factors = 0;
  int size = 1;
  bool operator==(const MeshRole&) const = default;
};

/// The ranks as a product of factors, and which of them each role takes. Views of the same ranks
/// share factors (Data = Shard x Replica; experts fold data, context and tensor ranks). Immutable
/// once built by `make_device_mesh`.
struct DeviceMesh {
  static constexpr std::size_t kMaxFactors = 16;
  FixedVector<AxisExtent, kMaxFactors> factors;
  std::array<MeshRole, kAxisCount> roles{};
  int ranks = 1;  ///< of the plan

  [[nodiscard]] const MeshRole& operator[](Axis axis) const {
    return roles[static_cast<std::size_t>(axis)];
  }
  bool operator==(const DeviceMesh&) const = default;

  /// The factors that the axes in `axes` take together, one bit each.
  [[nodiscard]] unsigned factors_of(AxisSet axes) const;
  /// Product of the sizes of the axes in `axes`.
  [[nodiscard]] int size(AxisSet axes) const;
  /// The axes of `axes` that have more than one rank.
  [[nodiscard]] AxisSet active(AxisSet axes) const;
  /// Ranks between neighbours along an axis; 1 where it has one rank.
  [[nodiscard]] int neighbour_distance(Axis axis) const;
};

/// Builds the mesh of a plan. `rank_order` names the dense axes, fastest first; an axis it leaves
/// out must have one rank. The expert grid folds the ranks of one pipeline stage (data x context x
/// tensor) with ExpertTensor fastest, then Expert, then ExpertData, as Megatron's does.
[[nodiscard]] DeviceMesh make_device_mesh(const PlanDegrees& plan,
                                          std::span<const Axis> rank_order);

/// The same mesh whose Out axis is a product of factors of these sizes, innermost first, each an
/// axis of its own. The sizes multiply to the ranks of Out.
[[nodiscard]] DeviceMesh with_factors(DeviceMesh mesh, std::span<const int> sizes);

/// The process group that the roles of several axes form together, gaps kept.
[[nodiscard]] ProcessGroup process_group(const DeviceMesh& mesh, AxisSet axes);

}  // namespace plansearch
