// SPDX-License-Identifier: Apache-2.0
// Computes: keys of equivalence classes and static bytes per parameter.
// Source: mixed-precision training keeps parameters, gradients, a master copy and moments
//         (Micikevicius et al., arXiv 1710.03740); ZeRO shards them (arXiv 1910.02054).
// Assumes: block profiles depend on the data degree only where data ranks communicate inside a
//          micro-batch.
// Units: bytes per element.
// Checked by: tests/unit/evaluate/class_profile_test.cpp
#include "evaluate/block/class_profile.hpp"

#include <algorithm>
#include <bit>

#include "cost/collective/place.hpp"

namespace plansearch {
namespace {

double size_of(const TensorPolicy& policy) {
  return policy.dtype ? element_size(*policy.dtype).value() / policy.pieces : 0.0;
}

double kept(const TensorPolicy& policy) {
  return policy.on_host ? 0.0 : size_of(policy);
}

/// Parameters are written back in their own format, from a buffer there or from where they live.
void add_host_bytes(const ParameterPolicy& policy, double moments, ModelStateBytes& bytes) {
  const double owned = 1.0 / policy.moment.pieces;
  const double states = size_of(policy.master) + moments * size_of(policy.moment);
  const TensorPolicy& gradient =
      policy.main_gradient.dtype ? policy.main_gradient : policy.gradient;
  const double sum = element_size(policy.host_sum.value_or(*gradient.dtype)).value() * owned;
  const double parameter = element_size(*policy.parameter.dtype).value() * owned;
  const bool fetched = policy.parameter.on_host && policy.parameter.gather != Scope::Step;
  bytes.host_parameter = fetched ? 0.0 : parameter;
  bytes.host = states + sum + parameter;
  // Without a master copy the parameter itself is read as well.
  bytes.host_traffic = sum + 2.0 * states + parameter * (policy.master.dtype ? 1.0 : 2.0);
  bytes.host_share = owned;
  bytes.gradient_at_step = sum;
  if (gradient.on_host) bytes.gradient_reduced = element_size(*gradient.dtype).value() * owned;
}

ModelStateBytes static_bytes(const ParameterPolicy& policy, double moments) {
  ModelStateBytes bytes;
  bytes.gradient_pieces = policy.gradient.pieces;
  bytes.parameter = kept(policy.parameter);
  const double share = 1.0 / policy.parameter.pieces;
  (policy.parameter.on_host ? bytes.host_frozen : bytes.share) = share;
  const double gradients = kept(policy.gradient) + kept(policy.main_gradient);
  (policy.updated_in_backward ? bytes.gradient_unit : bytes.gradient) = gradients;
  bytes.optimizer = kept(policy.master) + moments * kept(policy.moment);
  if (policy.moment.on_host) {
    add_host_bytes(policy, moments, bytes);
    return bytes;
  }
  if (policy.parameter.on_host) bytes.host = size_of(policy.parameter);
  const double gradient =
      policy.main_gradient.dtype ? kept(policy.main_gradient) : kept(policy.gradient);
  // Gradient read, master and moments read and written, parameter written; all by the rank that
  // owns the piece of the optimizer state.
  const double owners = policy.moment.pieces;
  const double full_gradient =
      gradient *
      (policy.main_gradient.dtype ? policy.main_gradient.pieces : policy.gradient.pieces) / owners;
  bytes.optimizer_traffic = full_gradient + 2.0 * bytes.optimizer +
                            element_size(*policy.parameter.dtype).value() / owners;
  return bytes;
}

/// Ranks that each update matrices of their own, of those that hold slices and shards of them.
double updaters(const MatrixUpdates& updates, const ParameterPolicy& policy, AxisSet slices,
                const DeviceMesh& mesh) {
  double ranks = updates.slices == UpdateSlices::Dealt ? mesh.size(slices) : 1.0;
  if (updates.shards != UpdateShards::Replicated) ranks *= policy.moment.pieces;
  return ranks;
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6U) + (hash >> 2U);
  return hash * 0xFF51AFD7ED558CCDULL;
}

std::uint64_t packed(AxisExtent extent) {
  return static_cast<std::uint64_t>(extent.size) << 32U | static_cast<std::uint32_t>(extent.stride);
}

/// Exact for one extent, which nearly all axes have.
std::uint64_t geometry(const DeviceMesh& mesh, Axis axis) {
  const MeshRole& role = mesh[axis];
  if (role.size == 1) return packed({});
  if (std::has_single_bit(role.factors)) {
    return packed(mesh.factors[static_cast<std::size_t>(std::countr_zero(role.factors))]);
  }
  const ProcessGroup group = process_group(mesh, {axis});
  std::uint64_t value = 0;
  for (const AxisExtent& extent : group.extents) {
    value = value == 0 ? packed(extent) : mixed(value, packed(extent));
  }
  return value;
}

/// Over these, ranks hold other sequences: nothing of one micro-batch is sent along them.
constexpr AxisSet kDataAxes{Axis::Data, Axis::ExpertData, Axis::Shard, Axis::Replica};
/// Along these, ranks share the work of one micro-batch.
constexpr AxisSet kMicroBatchAxes{Axis::In,      Axis::Out,    Axis::Depth,
                                  Axis::Context, Axis::Expert, Axis::ExpertTensor};

std::uint64_t whether_active(std::uint64_t where) {
  return where == packed({}) ? where : packed({2, 1});
}

}  // namespace

ModelStatePolicy static_policy(const TensorPolicies& policies, const DeviceMesh& mesh,
                               double moments) {
  ModelStatePolicy result{static_bytes(policies.dense, moments),
                          static_bytes(policies.expert, moments)};
  if (policies.updates == nullptr) return result;
  const auto complete = [&](const ParameterPolicy& policy, AxisSet slices, ModelStateBytes& bytes) {
    bytes.second_moment = kept(policy.moment);
    bytes.updaters = updaters(*policies.updates, policy, slices, mesh);
  };
  complete(policies.dense, mesh.active({Axis::In, Axis::Out}), result.dense);
  complete(policies.expert, mesh.active({Axis::In, Axis::ExpertTensor}), result.expert);
  return result;
}

StatesKey states_key(const PlanDegrees& plan, const DeviceMesh& mesh, const Problem& problem,
                     std::uint32_t placements) {
  const Framework& framework = *problem.framework;
  StatesKey key;
  key.placements = placements;
  key.plan = plan;
  key.plan.chunks = 1;
  key.plan.micro_batch = 1;
  key.plan.micro_batches = 1;
  key.plan.pieces = 1;
  key.plan.recompute = Recompute::None;
  key.plan.recompute_layers = 0;
  key.plan.schedule = kDefaultSchedule;
  key.plan.modules = 0;
  key.plan.dispatcher = placed_dispatcher(framework, plan.dispatcher);
  // A pipeline matters only by how long gathered parameters and whole gradients are kept.
  key.plan.pipeline = plan.pipeline > 1 && plan.zero >= ZeroStage::Gradients ? 2 : 1;
  const bool inside = plan.zero == ZeroStage::Parameters ||
                      gradient_reduce_scope(plan, framework.sharding) != Scope::Step;
  if (!inside) {
    key.plan.data = plan.data > 1 ? 2 : 1;
    key.plan.shard_group = 0;
  }
  for_each_axis(kMicroBatchAxes, [&](Axis axis) {
    key.axes[static_cast<std::size_t>(axis)] = geometry(mesh, axis);
  });
  key.ranks = deciding_ranks(*problem.cluster, mesh,
                             inside ? kMicroBatchAxes | kDataAxes : kMicroBatchAxes);
  for_each_axis(kDataAxes, [&](Axis axis) {
    const std::uint64_t exact = geometry(mesh, axis);
    key.axes[static_cast<std::size_t>(axis)] = inside ? exact : whether_active(exact);
  });
  return key;
}

DispatcherId placed_dispatcher(const Framework& framework, DispatcherId id) {
  const TokenPath path = dispatcher_of(framework, id).path;
  if (path == framework.dispatcher.path) return kOwnDispatcher;
  const auto& known = framework.dispatchers;
  return std::find_if(known.begin(), known.end(),
                      [&](const TokenDispatcher& one) { return one.path == path; })
      ->id;
}

StatesKey placement_key(StatesKey key, const DeviceMesh& mesh, const Cluster& cluster) {
  key.ranks = deciding_ranks(cluster, mesh, kMicroBatchAxes);
  key.plan.data = key.plan.data > 1 ? 2 : 1;
  key.plan.pipeline = 1;
  key.plan.shard_group = 0;
  key.plan.zero = ZeroStage::None;
  key.plan.on_host = 0;
  for_each_axis(kDataAxes, [&](Axis axis) {
    std::uint64_t& where = key.axes[static_cast<std::size_t>(axis)];
    where = whether_active(where);
  });
  return key;
}

std::size_t StatesKey::hash() const noexcept {
  std::uint64_t hash = 0x9E3779B97F4A7C15ULL;
  const auto mix = [&](std::uint64_t value) { hash = mixed(hash, value); };
  for (const int field : {plan.data, plan.pipeline, plan.tensor_in, plan.tensor_out,
                          plan.tensor_depth, plan.context, plan.expert, plan.expert_tensor,
                          plan.shard_group, ranks, static_cast<int>(plan.context_kind),
                          static_cast<int>(plan.sequence_parallel), static_cast<int>(plan.zero)}) {
    mix(static_cast<std::uint64_t>(field));
  }
  for (const std::uint64_t axis : axes) mix(axis);
  if (placements != 0) mix(placements);
  if (plan.dispatcher != kOwnDispatcher) mix(static_cast<std::uint64_t>(plan.dispatcher));
  if (plan.on_host != 0) mix(plan.on_host);
  return static_cast<std::size_t>(hash ^ hash >> 29U);
}

}  // namespace plansearch
