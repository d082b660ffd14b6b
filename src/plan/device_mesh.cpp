// SPDX-License-Identifier: Apache-2.0
#include "plansearch/device_mesh.hpp"

#include <algorithm>

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
    case Axis::ExpertTensor:
    case Axis::Expert:
    case Axis::ExpertData:
    case Axis::Shard:
    case Axis::Replica:
      break;
  }
  throw InternalError("a view of other axes has no place in a rank order");
}

constexpr std::array kDenseAxes{Axis::In,      Axis::Out,  Axis::Depth,
                                Axis::Context, Axis::Data, Axis::Pipeline};

/// The expert grid: ExpertTensor and Expert take the fastest ranks, ExpertData what is left of the
/// stage. Where the pipeline is not the slowest axis, legality demands that Data starts at the
/// same rank in both grids.
void add_expert_grid(const PlanDegrees& plan, DeviceMesh& mesh) {
  const int stage_ranks = plan.data * plan.context * plan.tensor();
  const int inner = plan.expert * plan.expert_tensor;
  mesh[Axis::ExpertTensor] = {plan.expert_tensor, 1};
  mesh[Axis::Expert] = {plan.expert, plan.expert_tensor};
  const AxisExtent& data = mesh[Axis::Data];
  const AxisExtent& pipeline = mesh[Axis::Pipeline];
  const bool pipeline_inside_data =
      pipeline.size > 1 && data.size > 1 && pipeline.stride < data.stride;
  mesh[Axis::ExpertData] = {std::max(stage_ranks / inner, 1),
                            pipeline_inside_data ? data.stride : inner};
}

void add_shard_views(const PlanDegrees& plan, DeviceMesh& mesh) {
  const AxisExtent& data = mesh[Axis::Data];
  const bool hybrid = plan.shard_group > 0 && plan.shard_group < plan.data;
  const int shard = hybrid ? plan.shard_group : plan.data;
  mesh[Axis::Shard] = {shard, data.stride};
  mesh[Axis::Replica] = {plan.data / shard, data.stride * shard};
}

}  // namespace

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

DeviceMesh make_device_mesh(const PlanDegrees& plan, std::span<const Axis> rank_order) {
  DeviceMesh mesh;
  AxisSet placed;
  int stride = 1;
  for (const Axis axis : rank_order) {
    PLANSEARCH_CHECK(!placed.contains(axis));
    placed.insert(axis);
    mesh[axis] = {degree(plan, axis), stride};
    stride *= mesh[axis].size;
  }
  for (const Axis axis : kDenseAxes) {
    PLANSEARCH_CHECK(placed.contains(axis) || degree(plan, axis) == 1);
  }
  add_expert_grid(plan, mesh);
  add_shard_views(plan, mesh);
  return mesh;
}

int ProcessGroup::size() const {
  int product = 1;
  for (int i = 0; i < count; ++i) product *= extents[static_cast<std::size_t>(i)].size;
  return product;
}

ProcessGroup process_group(const DeviceMesh& mesh, AxisSet axes) {
  FixedVector<AxisExtent, kAxisCount> found;
  for_each_axis(mesh.active(axes), [&](Axis axis) { found.push_back(mesh[axis]); });
  std::sort(found.begin(), found.end(),
            [](const AxisExtent& a, const AxisExtent& b) { return a.stride < b.stride; });
  ProcessGroup group;
  for (const AxisExtent& extent : found) {
    const auto last = static_cast<std::size_t>(group.count);
    if (last > 0) {
      AxisExtent& previous = group.extents[last - 1];
      if (previous.size * previous.stride == extent.stride) {
        previous.size *= extent.size;
        continue;
      }
    }
    PLANSEARCH_CHECK(last < group.extents.size());
    group.extents[last] = extent;
    ++group.count;
  }
  return group;
}

}  // namespace plansearch
