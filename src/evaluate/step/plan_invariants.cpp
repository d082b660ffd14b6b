// SPDX-License-Identifier: Apache-2.0
// Computes: states, optimizer time and host time of the devices of a plan, routes between its groups.
// Source: bytes per element of tensor policies (class_profile.hpp); optimizer traffic over memory
//         bandwidth, products of matrix updates (states/matrix_update.hpp); boundary.hpp.
// Assumes: positions of one kind hold the same states.
// Units: bytes, seconds, elements.
// Checked by: tests/unit/evaluate/step_model_test.cpp, memory_model_test.cpp
#include "evaluate/step/plan_invariants.hpp"

#include <algorithm>
#include <string_view>
#include <variant>

#include "cost/kernels/compute_cost.hpp"
#include "evaluate/states/host_update.hpp"
#include "plan/stages/expand.hpp"
#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

using Keys = FixedVector<std::string_view, 16>;

/// Whether a parameter that several blocks use is met for the first time.
bool is_new(std::string_view key, Keys& seen) {
  if (std::find(seen.begin(), seen.end(), key) != seen.end()) return false;
  seen.push_back(key);
  return true;
}

/// A second moment is read and written.
double optimizer_traffic(const ParameterCount& count, const ModelStatePolicy& statics) {
  return count.trainable_dense * statics.dense.optimizer_traffic +
         count.trainable_expert * statics.expert.optimizer_traffic +
         2.0 * (count.other_dense * statics.dense.second_moment +
                count.other_expert * statics.expert.second_moment);
}

/// Products of an optimizer that updates matrices, of the rank with most to do.
Seconds matrix_products(const PricingInput& view, int position, int transform,
                        const ModelStatePolicy& statics) {
  const MatrixUpdates* updates = matrix_updates(*view.problem.framework);
  if (updates == nullptr) return {};
  UpdateLoad dense(updates->deal, statics.dense.updaters);
  UpdateLoad expert(updates->deal, statics.expert.updaters);
  for (const int index : view.contents_at(position)) {
    if (view.content(index).transform != transform) continue;
    for_each_block(view, view.content(index), [&](const BlockProfile& block, double copies) {
      for (const MatrixUpdate& one : block.updates) {
        (one.expert ? expert : dense).add(one, copies);
      }
    });
  }
  return dense.time() + expert.time();
}

/// The unit that is gathered at once: a block under full sharding, a launch's weights over depth.
struct GatheredUnit {
  Bytes weights;
  double trained = 0.0;  ///< elements
};

/// Weights that are not trained are gathered as they are kept, or in the format of gathers.
GatheredUnit whole_block(const PricingInput& view, const BlockProfile& block) {
  ParameterCount unit = block.parameters;
  for (const SharedCount& shared : block.shared) unit += shared.count;
  const Bytes element = element_size(view.precision.gather);
  const double trained = unit.trainable_dense + unit.trainable_expert;
  const double frozen = unit.dense + unit.expert - trained;
  return {
      element * trained + std::min(element * frozen, Bytes(unit.frozen_dense + unit.frozen_expert)),
      trained};
}

GatheredUnit largest_unit(const PricingInput& view, int position) {
  const Bytes element = element_size(view.precision.gather);
  GatheredUnit largest;
  for (const int content : view.contents_at(position)) {
    const bool sharded =
        view.transform_of(view.content(content)).degrees->zero == ZeroStage::Parameters;
    for_each_block(view, view.content(content), [&](const BlockProfile& block, double) {
      const double launch = block.memory.gathered_unit;
      const GatheredUnit unit =
          sharded ? whole_block(view, block) : GatheredUnit{element * launch, launch};
      largest.weights = std::max(largest.weights, unit.weights);
      largest.trained = std::max(largest.trained, unit.trained);
    });
  }
  return largest;
}

/// The weights that stay gathered, else the unit in use and the one gathered ahead; a gradient not
/// yet reduced.
Bytes gathered_parameters(const PricingInput& view, int position) {
  const GatheredUnit largest = largest_unit(view, position);
  Bytes kept;
  for (const int content : view.contents_at(position)) {
    for_each_block(view, view.content(content), [&](const BlockProfile& block, double copies) {
      kept += block.memory.gathered_for_step * copies;
    });
  }
  if (kept == Bytes(0)) kept = 2.0 * largest.weights;
  return kept + element_size(view.precision.reduction) * largest.trained;
}

/// Ranks over which the optimizer states of a parameter are cut.
double state_slices(const PricingInput& view, int position) {
  const TransformInvariants& transform = view.transform_at(position);
  const PlanDegrees& degrees = *transform.degrees;
  if (degrees.zero == ZeroStage::None) return 0.0;
  const int data = (*transform.mesh)[Axis::Data].size;
  if (data == 1) return 0.0;
  return degrees.shard_group > 0 ? std::min(degrees.shard_group, data) : data;
}

/// Whether a framework that shards by default runs on one device: its tensors are the same objects
/// there, of one shard each.
bool wraps_one_device(const PricingInput& view) {
  if (view.problem.gpus != 1) return false;
  const auto& usual = view.problem.framework->natural_degrees;
  const auto zero = usual.find("zero");
  return zero != usual.end() && zero->second == static_cast<int>(ZeroStage::Parameters);
}

/// Per-step work of the host: a constant, and a share for every sharded parameter tensor and for
/// every slice of one.
Seconds host_time(const PricingInput& view, int position) {
  const bool flat = view.problem.cluster->software.flat_parameters.value_or(false);
  double tensors = 0.0;
  for (const int index : view.contents_at(position)) {
    const GroupContent& content = view.content(index);
    for (std::size_t b = 0; b < content.copies.size(); ++b) {
      const auto own = view.problem.network->blocks[b].parameters.size();
      tensors += content.copies[b] * (flat ? 1.0 : static_cast<double>(own));
    }
  }
  const FrameworkConstants& constants = view.constants;
  const bool sharded = view.transform_at(position).degrees->zero != ZeroStage::None;
  if (!sharded && !wraps_one_device(view)) return constants.host_step;
  return constants.host_step +
         (constants.host_parameter + constants.host_slice * state_slices(view, position)) * tensors;
}

/// Frozen weights of a device: its own, and a reference's beside those that are trained.
ParameterCount with_reference(const PricingInput& view, ParameterCount count) {
  const auto& model = view.problem.model;
  const bool adapted = model && model->training.lora;  // which are switched off for it
  if (!view.problem.network->reference || adapted) return count;
  const double element =
      element_size(view.precision.frozen.value_or(view.precision.parameter)).value();
  count.frozen_dense += count.frozen_dense + element * count.trainable_dense;
  count.frozen_expert += count.frozen_expert + element * count.trainable_expert;
  return count;
}

/// Parameters of what a device holds of one transform, and their states.
void add_states(const PricingInput& view, const TransformInvariants& transform,
                const ParameterCount& own, StageClassStates& statics) {
  const ParameterCount n = with_reference(view, own);
  const ModelStateBytes& dense = transform.statics.dense;
  const ModelStateBytes& expert = transform.statics.expert;
  statics.parameters += n;
  statics.parameter_bytes +=
      Bytes(n.trainable_dense * dense.parameter + n.trainable_expert * expert.parameter +
            n.frozen_dense * dense.share + n.frozen_expert * expert.share);
  statics.gradient_bytes +=
      Bytes(n.trainable_dense * dense.gradient + n.trainable_expert * expert.gradient);
  statics.optimizer_bytes +=
      Bytes(n.trainable_dense * dense.optimizer + n.trainable_expert * expert.optimizer +
            n.other_dense * dense.second_moment + n.other_expert * expert.second_moment);
  if ((*transform.mesh)[Axis::Data].size > 1) {
    const Bytes most = view.constants.memory_reduction_most;
    const Bytes whole((n.trainable_dense + n.trainable_expert) *
                      view.constants.memory_reduction_bytes);
    statics.reduction_buffers += most > Bytes(0) ? std::min(whole, most) : whole;
  }
  const HostTensors host = host_tensors(transform.degrees->on_host);
  const HostUpdate offload = host_update(view, n, transform.statics, host);
  statics.offload.memory += offload.memory;
  statics.offload.update += offload.update;
  statics.offload.parameters += offload.parameters;
  statics.offload.gradients += offload.gradients;
  statics.offload.reduced += offload.reduced;
  const Bytes traffic(optimizer_traffic(n, transform.statics) * view.constants.optimizer_factor);
  statics.optimizer += host.optimizer ? offload.update + offload.parameters
                                      : stream_time(view.problem.cluster->accelerator, traffic, 1);
}

/// Where updates are part of backward: gradients of one block, and of parameters that several
/// blocks use, which are whole when the last of them is through.
Bytes gradients_in_backward(const PricingInput& view, int position) {
  const ModelStatePolicy& statics = view.transform_at(position).statics;
  const auto bytes = [&](const ParameterCount& count) {
    return Bytes(count.trainable_dense * statics.dense.gradient_unit +
                 count.trainable_expert * statics.expert.gradient_unit);
  };
  Bytes largest;
  Bytes shared;
  Keys seen;
  for (const int content : view.contents_at(position)) {
    for_each_block(view, view.content(content), [&](const BlockProfile& block, double) {
      largest = std::max(largest, bytes(block.parameters));
      for (const SharedCount& one : block.shared) {
        if (is_new(one.key, seen)) shared += bytes(one.count);
      }
    });
  }
  return largest + shared;
}

StageClassStates statics_of(const PricingInput& view, int position) {
  StageClassStates statics;
  for_each_transform_at(view, position, [&](int transform) {
    const TransformInvariants& own =
        view.invariants.transforms[static_cast<std::size_t>(transform)];
    add_states(view, own, parameters_at(view, position, transform), statics);
    statics.optimizer += matrix_products(view, position, transform, own.statics);
  });
  if (view.problem.framework->optimizer_in_backward) {
    statics.gradient_bytes = gradients_in_backward(view, position);
  }
  statics.gathered_parameters = gathered_parameters(view, position);
  statics.host = host_time(view, position);
  return statics;
}

}  // namespace

LinkedAssignment routed(const Cluster& cluster, const ParallelPlan& plan) {
  LinkedAssignment result{plan.assignment, {}, {}, {}};
  const Assignment& held = *plan.assignment;
  const std::size_t stops = held.stop_count();
  for (const DirectMessage& message : plan.assignment->direct) {
    result.direct.push_back(
        boundary_route(cluster, plan, held.place_at(message.from), held.place_at(message.to)));
  }
  // Messages of their own make a boundary unlike any other.
  const auto is_reached = [&](std::size_t k) {
    const auto& direct = plan.assignment->direct;
    return std::any_of(direct.begin(), direct.end(), [&](const DirectMessage& message) {
      return message.to == k + 1 || message.from == k;
    });
  };
  const auto alike = [&](std::size_t a, std::size_t b) {
    const auto content = [&](std::size_t k) -> const GroupContent& {
      return held.contents[static_cast<std::size_t>(held.content_at(k))];
    };
    const GroupContent& x = content(a);
    const GroupContent& y = content(b);
    const auto receiver = [&](std::size_t k) { return content(k + 1).transform; };
    return x.transform == y.transform && x.last_block == y.last_block &&
           x.edges.leaving == y.edges.leaving && receiver(a) == receiver(b) &&
           result.boundaries[a] == result.boundaries[b];
  };
  for (std::size_t k = 0; k + 1 < stops; ++k) {
    const bool seam = held.gangs.empty() && (k + 1) % held.groups_per_replica() == 0;
    result.boundaries.push_back(
        seam ? StageLink{0, 0.0, 0.0}
             : boundary_route(cluster, plan, held.place_at(k), held.place_at(k + 1)));
    auto& kinds = result.boundary_kinds;
    const bool own = is_reached(k);
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](std::size_t earlier) {
      return !own && !is_reached(earlier) && alike(earlier, k);
    });
    result.kind_of_boundary.push_back(static_cast<std::size_t>(same - kinds.begin()));
    if (same == kinds.end()) kinds.push_back(k);
  }
  return result;
}

void add_return_boundary(const Problem& problem, const ParallelPlan& plan,
                         LinkedAssignment& routed_plan) {
  const auto& groups = plan.assignment->groups;
  if (problem.network->forwards == 1 || groups.size() == 1) return;
  routed_plan.kind_of_boundary.push_back(routed_plan.boundary_kinds.size());
  routed_plan.boundary_kinds.push_back(routed_plan.boundaries.size());
  routed_plan.boundaries.push_back(
      boundary_route(*problem.cluster, plan, groups.back().position, groups.front().position));
}

const LinkedAssignment& AssignmentCache::get(const PlanDegrees& degrees,
                                             const DeviceMesh& mesh) const {
  const int stride = mesh.neighbour_distance(Axis::Pipeline);
  const Key key{degrees.pipeline, degrees.chunks, schedule_row(degrees.schedule).placement, stride};
  const std::lock_guard lock(mutex_);
  auto& slot = known_[key];
  if (!slot) {
    auto assignment = uniform_assignment(degrees, *problem_.network, *problem_.framework, stride);
    PLANSEARCH_CHECK(std::holds_alternative<std::shared_ptr<const Assignment>>(assignment));
    const ParallelPlan plan{{{degrees, mesh}}, std::get<0>(std::move(assignment)), {}};
    LinkedAssignment routed_plan = routed(*problem_.cluster, plan);
    add_return_boundary(problem_, plan, routed_plan);
    slot = std::make_unique<const LinkedAssignment>(std::move(routed_plan));
  }
  return *slot;
}

ParameterCount parameters_at(const PricingInput& view, int position, int transform) {
  ParameterCount total;
  Keys seen;
  for (const int index : view.contents_at(position)) {
    if (view.content(index).transform != transform) continue;
    for_each_block(view, view.content(index), [&](const BlockProfile& block, double copies) {
      total += block.parameters * copies;
      for (const SharedCount& shared : block.shared) {
        if (is_new(shared.key, seen)) total += shared.count;
      }
    });
  }
  return total;
}

std::vector<double> copies_at(const PricingInput& view, int position, int transform) {
  std::vector<double> copies(view.problem.network->blocks.size(), 0.0);
  for (const int index : view.contents_at(position)) {
    const GroupContent& content = view.content(index);
    if (content.transform != transform) continue;
    for (std::size_t b = 0; b < copies.size(); ++b) copies[b] += content.copies[b];
  }
  return copies;
}

void complete_kinds(const PricingContext& context, PlanInvariants& invariants) {
  const PricingInput view{context, invariants, {}};
  invariants.kinds.clear();
  for (const int position : view.assignment().kinds) {
    invariants.kinds.push_back(statics_of(view, position));
  }
}

}  // namespace plansearch
