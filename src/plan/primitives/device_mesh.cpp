// SPDX-License-Identifier: Apache-2.0
#include "plansearch/device_mesh.hpp"

#include <algorithm>
#include <bit>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

int degree(const PlanDegrees& plan, Axis axis) {
  switch (axis) {
    case Axis::In:
      return plan.tensor_in;
    case Axis::Out:
      return plan.tensor_out;
    case Axis::Depth:
      return plan.tensor_depth;
    case Axis::Context:
      return plan.context;
    case Axis::Data:
      return plan.data;
    case Axis::Pipeline:
      return plan.pipeline;
    default:
      break;
  }
  throw InternalError("a view of other axes has no place in a rank order");
}

constexpr std::array kDenseAxes{Axis::In,      Axis::Out,  Axis::Depth,
                                Axis::Context, Axis::Data, Axis::Pipeline};

/// Adds factors and hands them out to roles, splitting a factor where a role takes part of it.
class MeshBuilder {
 public:
  using Factors = std::uint16_t;

  explicit MeshBuilder(DeviceMesh& mesh) : mesh_(mesh) {}

  [[nodiscard]] Factors add(AxisExtent extent) {
    if (extent.size <= 1) return 0;
    mesh_.factors.push_back(extent);
    return bit(mesh_.factors.size() - 1);
  }

  void assign(Axis axis, Factors factors, int size) {
    mesh_.roles[static_cast<std::size_t>(axis)] = {factors, size};
  }

  /// The fastest `size` ranks of `pool`, which keeps the others; nothing where they do not nest.
  [[nodiscard]] std::optional<Factors> take(Factors& pool, int size) {
    Factors taken = 0;
    while (size > 1) {
      const auto fastest = find_fastest(pool);
      if (!fastest) return std::nullopt;
      const int have = mesh_.factors[*fastest].size;
      if (have > size) {
        if (have % size != 0) return std::nullopt;
        pool |= split(*fastest, size);
        size = 1;
      } else {
        if (size % have != 0) return std::nullopt;
        size /= have;
      }
      taken |= bit(*fastest);
      pool = static_cast<Factors>(pool & ~bit(*fastest));
    }
    return taken;
  }

 private:
  static Factors bit(std::size_t factor) { return static_cast<Factors>(1U << factor); }

  [[nodiscard]] std::optional<std::size_t> find_fastest(Factors pool) const {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < mesh_.factors.size(); ++i) {
      if ((pool & bit(i)) == 0) continue;
      if (!best || mesh_.factors[i].stride < mesh_.factors[*best].stride) best = i;
    }
    return best;
  }

  /// Leaves `inner` ranks to a factor; the rest becomes a factor of its own for the same roles.
  Factors split(std::size_t factor, int inner) {
    const AxisExtent whole = mesh_.factors[factor];
    mesh_.factors[factor].size = inner;
    const Factors rest = add({whole.size / inner, whole.stride * inner});
    for (MeshRole& role : mesh_.roles) {
      if ((role.factors & bit(factor)) != 0) role.factors |= rest;
    }
    return rest;
  }

  DeviceMesh& mesh_;
};

void add_shard_views(const PlanDegrees& plan, const DeviceMesh& mesh, MeshBuilder& builder) {
  const bool hybrid = plan.shard_group > 0 && plan.shard_group < plan.data;
  const int shard = hybrid ? plan.shard_group : plan.data;
  MeshBuilder::Factors pool = mesh[Axis::Data].factors;
  const auto near = builder.take(pool, shard);
  builder.assign(Axis::Shard, near.value_or(0), shard);
  builder.assign(Axis::Replica, pool, plan.data / shard);
}

/// The expert grid: ExpertTensor and Expert take the fastest ranks, ExpertData what is left of the
/// stage. Where degrees do not nest in the dense ones (tensor 6, experts 4), the stage is cut anew
/// from its first rank on.
void add_expert_grid(const PlanDegrees& plan, const DeviceMesh& mesh, MeshBuilder& builder) {
  const int stage_ranks = plan.stage_ranks();
  const int inner = plan.expert_ranks();
  const int rest = std::max(stage_ranks / inner, 1);
  MeshBuilder::Factors pool = 0;
  for (const Axis axis : {Axis::In, Axis::Out, Axis::Depth, Axis::Context, Axis::Data}) {
    pool |= mesh[axis].factors;
  }
  const auto tensor = builder.take(pool, plan.expert_tensor);
  const auto expert = tensor ? builder.take(pool, plan.expert) : std::nullopt;
  if (expert) {
    builder.assign(Axis::ExpertTensor, *tensor, plan.expert_tensor);
    builder.assign(Axis::Expert, *expert, plan.expert);
    builder.assign(Axis::ExpertData, pool, rest);
    return;
  }
  builder.assign(Axis::ExpertTensor, builder.add({plan.expert_tensor, 1}), plan.expert_tensor);
  builder.assign(Axis::Expert, builder.add({plan.expert, plan.expert_tensor}), plan.expert);
  builder.assign(Axis::ExpertData, builder.add({rest, inner}), rest);
}

}  // namespace

unsigned DeviceMesh::factors_of(AxisSet set) const {
  unsigned held = 0;
  for_each_axis(set, [&](Axis axis) { held |= (*this)[axis].factors; });
  return held;
}

int DeviceMesh::size(AxisSet set) const {
  int product = 1;
  for_each_axis(set, [&](Axis axis) { product *= (*this)[axis].size; });
  return product;
}

AxisSet DeviceMesh::active(AxisSet set) const {
  AxisSet result;
  for_each_axis(set, [&](Axis axis) {
    if ((*this)[axis].size > 1) result.insert(axis);
  });
  return result;
}

int DeviceMesh::neighbour_distance(Axis axis) const {
  const ProcessGroup group = process_group(*this, {axis});
  return group.extents.empty() ? 1 : group.extents[0].stride;
}

DeviceMesh make_device_mesh(const PlanDegrees& plan, std::span<const Axis> rank_order) {
  DeviceMesh mesh;
  MeshBuilder builder(mesh);
  AxisSet placed;
  int stride = 1;
  for (const Axis axis : rank_order) {
    PLANSEARCH_CHECK(!placed.contains(axis));
    placed.insert(axis);
    const int size = degree(plan, axis);
    builder.assign(axis, builder.add({size, stride}), size);
    stride *= size;
  }
  mesh.ranks = stride;
  for (const Axis axis : kDenseAxes) {
    PLANSEARCH_CHECK(placed.contains(axis) || degree(plan, axis) == 1);
  }
  add_shard_views(plan, mesh, builder);
  add_expert_grid(plan, mesh, builder);
  return mesh;
}

DeviceMesh with_factors(DeviceMesh mesh, std::span<const int> sizes) {
  PLANSEARCH_CHECK(sizes.size() <= kMostFactors);
  MeshBuilder builder(mesh);
  MeshBuilder::Factors pool = mesh[Axis::Out].factors;
  int product = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto taken = builder.take(pool, sizes[i]);
    PLANSEARCH_CHECK(taken.has_value());
    builder.assign(factor_axis(i), *taken, sizes[i]);
    product *= sizes[i];
  }
  PLANSEARCH_CHECK(product == mesh[Axis::Out].size);
  return mesh;
}

ProcessGroup::ProcessGroup(int size, int stride) : period(stride) {
  nest({size, stride});
  world = period;
}

int ProcessGroup::size() const {
  int product = 1;
  for (const AxisExtent& extent : extents) product *= extent.size;
  return product;
}

int ProcessGroup::span() const {
  int last = 0;
  for (const AxisExtent& extent : extents) last += (extent.size - 1) * extent.stride;
  return last + 1;
}

void ProcessGroup::nest(AxisExtent extent) {
  if (extent.size <= 1) return;
  PLANSEARCH_CHECK(extent.stride >= period);
  const bool touches =
      !extents.empty() && extents.back().size * extents.back().stride == extent.stride;
  if (touches) {
    extents[extents.size() - 1].size *= extent.size;
  } else {
    extents.push_back(extent);
  }
  period = extent.size * extent.stride;
}

ProcessGroup process_group(const DeviceMesh& mesh, AxisSet axes) {
  FixedVector<AxisExtent, DeviceMesh::kMaxFactors> found;
  for (unsigned factors = mesh.factors_of(axes); factors != 0; factors &= factors - 1) {
    found.push_back(mesh.factors[static_cast<std::size_t>(std::countr_zero(factors))]);
  }
  std::ranges::sort(found, {}, &AxisExtent::stride);
  ProcessGroup group;
  for (const AxisExtent& extent : found) group.nest(extent);
  group.world = mesh.ranks;
  return group;
}

}  // namespace plansearch
