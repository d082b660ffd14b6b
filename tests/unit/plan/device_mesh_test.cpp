// SPDX-License-Identifier: Apache-2.0
// Rank orders of the frameworks, checked against an explicit reshape of all ranks.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "plansearch/device_mesh.hpp"

namespace plansearch::device_mesh_test {
namespace {

using Groups = std::set<std::vector<int>>;

/// All groups of some axes by their extents: those ranks lead one whose index is 0 in every extent.
Groups groups_of(const DeviceMesh& mesh, AxisSet axes, int ranks) {
  const ProcessGroup extents = process_group(mesh, axes);
  Groups groups;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> group{rank};
    bool leads = true;
    for (const AxisExtent& extent : extents.extents) {
      leads = leads && rank / extent.stride % extent.size == 0;
      const std::vector<int> inner = group;
      for (int i = 1; i < extent.size; ++i) {
        for (const int member : inner) group.push_back(member + i * extent.stride);
      }
    }
    if (leads) groups.insert(group);
  }
  return groups;
}

Groups groups_of(const DeviceMesh& mesh, Axis axis, int ranks) {
  return groups_of(mesh, AxisSet{axis}, ranks);
}

/// All groups of one dimension of the row-major array arange(ranks).reshape(shape).
Groups reshaped_groups(const std::vector<int>& shape, std::size_t dim) {
  int ranks = 1;
  for (const int size : shape) ranks *= size;
  Groups groups;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> index(shape.size());
    int rest = rank;
    for (std::size_t i = shape.size(); i-- > 0;) {
      index[i] = rest % shape[i];
      rest /= shape[i];
    }
    if (index[dim] != 0) continue;
    std::vector<int> group;
    for (int k = 0; k < shape[dim]; ++k) {
      index[dim] = k;
      int flat = 0;
      for (std::size_t i = 0; i < shape.size(); ++i) flat = flat * shape[i] + index[i];
      group.push_back(flat);
    }
    groups.insert(group);
  }
  return groups;
}

PlanDegrees plan_of(int tp, int cp, int dp, int pp) {
  PlanDegrees plan;
  plan.tensor_out = tp;
  plan.context = cp;
  plan.data = dp;
  plan.pipeline = pp;
  return plan;
}

TEST_SUITE("unit") {
  TEST_CASE("mesh: Megatron, nanotron, torchtitan: tp, cp, dp, pp, the first fastest") {
    // Megatron: rank = tp + TP (cp + CP (dp + DP pp)); nanotron and torchtitan reshape
    // (pp, dp, cp, tp). The same groups.
    const PlanDegrees plan = plan_of(2, 3, 4, 5);
    const std::vector<Axis> order{Axis::Out, Axis::Context, Axis::Data, Axis::Pipeline};
    const DeviceMesh mesh = make_device_mesh(plan, order);
    const std::vector<int> shape{5, 4, 3, 2};
    CHECK(groups_of(mesh, Axis::Out, 120) == reshaped_groups(shape, 3));
    CHECK(groups_of(mesh, Axis::Context, 120) == reshaped_groups(shape, 2));
    CHECK(groups_of(mesh, Axis::Data, 120) == reshaped_groups(shape, 1));
    CHECK(groups_of(mesh, Axis::Pipeline, 120) == reshaped_groups(shape, 0));
  }

  TEST_CASE("mesh: DeepSpeed's topology (pipe, data, model in C order)") {
    const PlanDegrees plan = plan_of(4, 1, 3, 2);
    const DeviceMesh mesh =
        make_device_mesh(plan, std::vector<Axis>{Axis::Out, Axis::Data, Axis::Pipeline});
    CHECK(groups_of(mesh, Axis::Data, 24) == reshaped_groups({2, 3, 4}, 1));
    CHECK(groups_of(mesh, Axis::Pipeline, 24) == reshaped_groups({2, 3, 4}, 0));
  }

  TEST_CASE("mesh: tp-cp-ep-pp-dp and AxoNN put data last") {
    const PlanDegrees plan = plan_of(2, 1, 3, 4);
    const DeviceMesh mesh =
        make_device_mesh(plan, std::vector<Axis>{Axis::Out, Axis::Pipeline, Axis::Data});
    CHECK(process_group(mesh, {Axis::Pipeline}).extents[0] == AxisExtent{4, 2});
    CHECK(process_group(mesh, {Axis::Data}).extents[0] == AxisExtent{3, 8});
    PlanDegrees axonn = plan_of(2, 1, 2, 2);
    axonn.tensor_in = 3;
    axonn.tensor_depth = 5;
    const DeviceMesh grid = make_device_mesh(
        axonn, std::vector<Axis>{Axis::In, Axis::Out, Axis::Depth, Axis::Pipeline, Axis::Data});
    CHECK(groups_of(grid, Axis::Out, 120) == reshaped_groups({2, 2, 5, 2, 3}, 3));
    CHECK(groups_of(grid, Axis::Depth, 120) == reshaped_groups({2, 2, 5, 2, 3}, 2));
  }

  TEST_CASE("mesh: the expert grid folds data x context x tensor of one stage") {
    // Megatron's expert generator: etp, ep, expert-dp, pp over the same 32 ranks.
    PlanDegrees plan = plan_of(4, 1, 4, 2);
    plan.expert = 4;
    plan.expert_tensor = 2;
    const DeviceMesh mesh = make_device_mesh(
        plan, std::vector<Axis>{Axis::Out, Axis::Context, Axis::Data, Axis::Pipeline});
    const std::vector<int> shape{2, 2, 4, 2};  // pp, expert data, ep, etp
    CHECK(groups_of(mesh, Axis::ExpertTensor, 32) == reshaped_groups(shape, 3));
    CHECK(groups_of(mesh, Axis::Expert, 32) == reshaped_groups(shape, 2));
    CHECK(groups_of(mesh, Axis::ExpertData, 32) == reshaped_groups(shape, 1));
    CHECK(groups_of(mesh, Axis::Pipeline, 32) == reshaped_groups(shape, 0));
  }

  TEST_CASE("mesh: hybrid shard splits data into shard (near) and replica (far)") {
    PlanDegrees plan = plan_of(2, 1, 8, 1);
    plan.shard_group = 4;
    const DeviceMesh mesh = make_device_mesh(plan, std::vector<Axis>{Axis::Out, Axis::Data});
    CHECK(groups_of(mesh, Axis::Shard, 16) == reshaped_groups({2, 4, 2}, 1));
    CHECK(groups_of(mesh, Axis::Replica, 16) == reshaped_groups({2, 4, 2}, 0));
  }

  TEST_CASE("mesh: neighbouring axes form one process group, others a nested one") {
    const DeviceMesh mesh =
        make_device_mesh(plan_of(2, 3, 4, 5),
                         std::vector<Axis>{Axis::Out, Axis::Context, Axis::Data, Axis::Pipeline});
    const ProcessGroup merged = process_group(mesh, {Axis::Context, Axis::Data});
    CHECK(merged.extents == FixedVector<AxisExtent, 8>{{12, 2}});
    CHECK(merged.period == 24);
    CHECK(merged.world == 120);
    const ProcessGroup nested = process_group(mesh, {Axis::Out, Axis::Data});
    // Rank = t + 6 d with t < 2, d < 4: the three context ranks between lie in the gap.
    CHECK(nested.extents == FixedVector<AxisExtent, 8>{{2, 1}, {4, 6}});
    CHECK(nested.size() == 8);
    CHECK(nested.span() == 20);
    CHECK(nested.period == 24);
  }

  TEST_CASE("mesh: context and data with tensor ranks between keep the gap") {
    const DeviceMesh mesh =
        make_device_mesh(plan_of(2, 2, 3, 2),
                         std::vector<Axis>{Axis::Context, Axis::Out, Axis::Data, Axis::Pipeline});
    CHECK(groups_of(mesh, {Axis::Context, Axis::Data}, 24) == Groups{{0, 1, 4, 5, 8, 9},
                                                                     {2, 3, 6, 7, 10, 11},
                                                                     {12, 13, 16, 17, 20, 21},
                                                                     {14, 15, 18, 19, 22, 23}});
  }

  TEST_CASE("mesh: experts fold over a pipeline that lies between tensor and data") {
    // Ranks tp (2), pp (2), dp (4): stage 0 holds 0 1, 4 5, 8 9, 12 13. Four experts take the first
    // four of them, two copies of each are eight ranks apart.
    PlanDegrees plan = plan_of(2, 1, 4, 2);
    plan.expert = 4;
    const DeviceMesh mesh =
        make_device_mesh(plan, std::vector<Axis>{Axis::Out, Axis::Pipeline, Axis::Data});
    CHECK(groups_of(mesh, Axis::Expert, 16) ==
          Groups{{0, 1, 4, 5}, {8, 9, 12, 13}, {2, 3, 6, 7}, {10, 11, 14, 15}});
    CHECK(process_group(mesh, {Axis::ExpertData}).extents[0] == AxisExtent{2, 8});
    // The dense view is not touched by the cut through its data ranks.
    CHECK(process_group(mesh, {Axis::Data}).extents == FixedVector<AxisExtent, 8>{{4, 4}});
  }

  TEST_CASE("mesh: expert degrees that do not nest in the dense ones cut the stage anew") {
    PlanDegrees plan = plan_of(6, 1, 2, 2);
    plan.expert = 4;
    const DeviceMesh mesh =
        make_device_mesh(plan, std::vector<Axis>{Axis::Out, Axis::Data, Axis::Pipeline});
    CHECK(groups_of(mesh, Axis::Expert, 24) == reshaped_groups({2, 3, 4}, 2));
    CHECK(groups_of(mesh, Axis::ExpertData, 24) == reshaped_groups({2, 3, 4}, 1));
    CHECK(groups_of(mesh, Axis::Out, 24) == reshaped_groups({2, 2, 6}, 2));
  }
}

}  // namespace
}  // namespace plansearch::device_mesh_test
