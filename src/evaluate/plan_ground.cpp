// SPDX-License-Identifier: Apache-2.0
// Computes: states, optimizer time, host time and shared gradients of the devices of a plan.
// Source: bytes per element of tensor policies (class_profile.hpp); optimizer traffic over memory
//         bandwidth; gradients of shared parameters as derived (communication/derive.hpp).
// Assumes: positions of one kind hold the same states.
// Units: bytes, seconds, elements.
// Checked by: tests/unit/evaluate/step_model_test.cpp, memory_model_test.cpp
#include "evaluate/plan_ground.hpp"

#include <algorithm>
#include <string_view>
#include <variant>

#include "communication/derive.hpp"
#include "cost/collective_cost.hpp"
#include "cost/compute_cost.hpp"
#include "plan/expand.hpp"
#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

using Keys = FixedVector<std::string_view, 16>;

double optimizer_traffic(const ParameterCount& count, const StaticPolicy& statics) {
  return count.trainable_dense * statics.dense.optimizer_traffic +
         count.trainable_expert * statics.expert.optimizer_traffic;
}

/// Full sharding: the unit in use and the one gathered ahead, and a gradient not yet reduced.
Bytes gathered_parameters(const PlanView& view, int position) {
  if (view.transform_at(position).degrees->zero != ZeroStage::Parameters) return Bytes(0);
  double largest = 0.0;
  for (const int content : view.contents_at(position)) {
    for_each_block(view, view.content(content), [&](const BlockProfile& block, double) {
      ParameterCount unit = block.parameters;
      for (const SharedCount& shared : block.shared) unit += shared.count;
      largest = std::max(largest, unit.dense + unit.expert);
    });
  }
  return element_size(view.precision.gather) * (2.0 * largest) +
         element_size(view.precision.reduction) * largest;
}

/// Per-step work of the host: a constant, and a share for every sharded parameter tensor.
Seconds host_time(const PlanView& view, int position) {
  const bool flat = view.problem.cluster->software.flat_parameters.value_or(false);
  double tensors = 0.0;
  for (const int index : view.contents_at(position)) {
    const GroupContent& content = view.content(index);
    for (std::size_t b = 0; b < content.copies.size(); ++b) {
      const auto own = view.problem.network->blocks[b].parameters.size();
      tensors += content.copies[b] * (flat ? 1.0 : static_cast<double>(own));
    }
  }
  return view.constants.host_step + view.constants.host_parameter * tensors;
}

KindStatics statics_of(const PlanView& view, int position) {
  const TransformGround& transform = view.transform_at(position);
  const StaticBytes& dense = transform.statics.dense;
  const StaticBytes& expert = transform.statics.expert;
  const ParameterCount n = position_parameters(view, position);
  KindStatics statics;
  statics.parameters = n;
  statics.parameter_bytes = Bytes(n.dense * dense.parameter + n.expert * expert.parameter);
  statics.gradient_bytes =
      Bytes(n.trainable_dense * dense.gradient + n.trainable_expert * expert.gradient);
  statics.optimizer_bytes =
      Bytes(n.trainable_dense * dense.optimizer + n.trainable_expert * expert.optimizer);
  if ((*transform.mesh)[Axis::Data].size > 1) {
    statics.reduction_buffers =
        Bytes((n.trainable_dense + n.trainable_expert) * view.constants.memory_reduction_bytes);
  }
  statics.gathered_parameters = gathered_parameters(view, position);
  statics.optimizer = stream_time(
      view.problem.cluster->accelerator,
      Bytes(optimizer_traffic(n, transform.statics) * view.constants.optimizer_factor), 1);
  statics.host = host_time(view, position);
  return statics;
}

/// The group of positions that sum one gradient: as far apart as their first ranks.
ProcessGroup group_of(const PlanView& view, const std::vector<int>& positions) {
  const auto& places = view.assignment().positions;
  const auto first = [&](int p) { return places[static_cast<std::size_t>(p)].first; };
  const int count = static_cast<int>(positions.size());
  const int distance = (first(positions.back()) - first(positions.front())) / (count - 1);
  ProcessGroup group(count, std::max(distance, 1));
  // All positions together repeat along the ranks; spelled-out stages fill them just once.
  const DeviceMesh& mesh = *view.transform_at(positions.front()).mesh;
  group.world = mesh.ranks;
  const bool along_axis = mesh[Axis::Pipeline].size == view.assignment().stages();
  group.period = along_axis ? mesh.neighbour_distance(Axis::Pipeline) * view.assignment().stages()
                            : mesh.ranks;
  return group;
}

StageBlocks blocks_by_position(const PlanView& view) {
  StageBlocks stages;
  for (int p = 0; p < view.assignment().stages(); ++p) {
    std::vector<std::size_t>& held = stages.emplace_back();
    for (const int index : view.contents_at(p)) {
      const std::vector<double>& copies = view.content(index).copies;
      for (std::size_t b = 0; b < copies.size(); ++b) {
        if (copies[b] > 0.0) held.push_back(b);
      }
    }
  }
  return stages;
}

void add_shared(const PlanView& view, PlanGround& ground) {
  if (view.assignment().stages() == 1) return;
  const ClassProfile& profile = *ground.transforms.front().profile;
  if (profile.shared.empty()) return;
  const StageBlocks stages = blocks_by_position(view);
  for (const PricedCommunication& shared : profile.shared) {
    SharedReduction reduction{shared, {}};
    for (int p = 0; p < view.assignment().stages(); ++p) {
      const auto& held = stages[static_cast<std::size_t>(p)];
      const bool holds = std::any_of(held.begin(), held.end(), [&](std::size_t b) {
        return std::any_of(profile.blocks[b].shared.begin(), profile.blocks[b].shared.end(),
                           [&](const SharedCount& s) { return s.key == shared.shared_key; });
      });
      if (holds) reduction.positions.push_back(p);
    }
    if (reduction.positions.size() < 2) continue;
    PricedCommunication& priced = reduction.priced;
    priced.communication.group_size = static_cast<int>(reduction.positions.size());
    // The class holds bytes of whole tiles; the plan knows into how many pieces it cuts them.
    priced.bytes =
        priced.bytes /
        static_cast<double>(ground.transforms.front().mesh->size(priced.communication.cut));
    const CollectiveCost cost =
        collective_cost(*view.problem.cluster, priced.communication.kind, priced.bytes,
                        group_of(view, reduction.positions), Contention::TrainingStep);
    priced.wire_bytes = cost.wire_bytes;
    priced.time = priced.exposed = cost.time;
    priced.count = 1;
    ground.shared.push_back(std::move(reduction));
  }
}

}  // namespace

std::vector<BoundaryRoute> boundary_routes(const Cluster& cluster, const ParallelPlan& plan) {
  std::vector<BoundaryRoute> routes;
  const auto& groups = plan.assignment->groups;
  for (std::size_t k = 0; k + 1 < groups.size(); ++k) {
    routes.push_back(boundary_route(cluster, plan, groups[k].position, groups[k + 1].position));
  }
  return routes;
}

const RoutedAssignment& AssignmentCache::get(const PlanDegrees& degrees,
                                             const DeviceMesh& mesh) const {
  const int stride = mesh.neighbour_distance(Axis::Pipeline);
  const Key key{degrees.pipeline, degrees.chunks, schedule_row(degrees.schedule).placement, stride};
  const std::lock_guard lock(mutex_);
  auto& slot = known_[key];
  if (!slot) {
    auto assignment = uniform_assignment(degrees, *problem_.network, *problem_.framework, stride);
    PLANSEARCH_CHECK(std::holds_alternative<std::shared_ptr<const Assignment>>(assignment));
    const ParallelPlan plan{{{degrees, mesh}}, std::get<0>(std::move(assignment)), {}};
    slot = std::make_unique<const RoutedAssignment>(
        RoutedAssignment{plan.assignment, boundary_routes(*problem_.cluster, plan)});
  }
  return *slot;
}

ParameterCount position_parameters(const PlanView& view, int position) {
  ParameterCount total;
  Keys seen;
  for (const int index : view.contents_at(position)) {
    for_each_block(view, view.content(index), [&](const BlockProfile& block, double copies) {
      total += block.parameters * copies;
      for (const SharedCount& shared : block.shared) {
        if (std::find(seen.begin(), seen.end(), shared.key) != seen.end()) continue;
        seen.push_back(shared.key);
        total += shared.count;
      }
    });
  }
  return total;
}

void complete_kinds(const Problem& problem, const FrameworkConstants& constants,
                    const PrecisionPolicy& precision, PlanGround& ground) {
  const PlanView view{problem, constants, precision, ground, {}};
  ground.kinds.clear();
  for (const int position : ground.assignment->kinds) {
    ground.kinds.push_back(statics_of(view, position));
  }
}

void complete_shared(const Problem& problem, const FrameworkConstants& constants,
                     const PrecisionPolicy& precision, PlanGround& ground) {
  if (ground.shared_known) return;
  add_shared({problem, constants, precision, ground, {}}, ground);
  ground.shared_known = true;
}

}  // namespace plansearch
