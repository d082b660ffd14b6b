// SPDX-License-Identifier: Apache-2.0
// Computes: where every state of a parameter lives and where it is used: storage and use cuts,
//           scopes.
// Source: ZeRO stages (Rajbhandari et al., SC 2020), FSDP, the depth axis of AxoNN, as settings of
//         one type.
// Assumes: flat cuts of equal pieces; the scopes and formats of the framework file.
// Units: mesh axes, scopes, number formats.
// Checked by: tests/unit/communication/derivation_test.cpp,
//             tests/unit/communication/micro_batch_test.cpp
#include "communication/derive/tensor_policy.hpp"

#include <algorithm>

#include "plansearch/error.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

const PrecisionPolicy& precision_policy(const Framework& framework, DataType precision) {
  const auto found = framework.precision.find(precision);
  PLANSEARCH_CHECK(found != framework.precision.end());
  return found->second;
}

/// A cut over `outer` (AxoNN's z) and, where the ZeRO stage reaches `threshold`, over `data`.
FlatCut cut(AxisSet outer, AxisSet data, ZeroStage stage, ZeroStage threshold) {
  FlatCut result;
  if (!outer.empty()) result.push_back(outer);
  if (stage >= threshold && !data.empty()) result.push_back(data);
  return result;
}

int pieces(const FlatCut& cut, const DeviceMesh& mesh) {
  int product = 1;
  for (const AxisSet axes : cut) product *= mesh.size(axes);
  return product;
}

/// Gradients that every micro-batch reduces into shards leave as they are made.
void to_host(const OptimizerOffload& offload, Scope reduce, ParameterPolicy& policy) {
  policy.master.on_host = policy.moment.on_host = true;
  if (offload.sums_in_fp32) policy.host_sum = DataType::Fp32;
  const bool leave = offload.gradients == GradientsToHost::AsReduced && reduce == Scope::MicroBatch;
  policy.gradient.on_host = policy.main_gradient.on_host = leave;
}

ParameterPolicy make_policy(const PlanDegrees& plan, const DeviceMesh& mesh,
                            const Framework& framework, const PrecisionPolicy& precision,
                            AxisSet depth, AxisSet shard, AxisSet data) {
  const ShardingRules& rules = framework.sharding;
  const FlatCut parameters = cut(depth, shard, plan.zero, ZeroStage::Parameters);
  const Scope reduce = gradient_reduce_scope(plan, rules);
  // Gradients that are summed at the end of a step are whole until then.
  const FlatCut gradients =
      cut(depth, reduce == Scope::Step ? AxisSet{} : shard, plan.zero, ZeroStage::Gradients);
  const FlatCut states = cut(depth, shard, plan.zero, ZeroStage::Optimizer);
  const bool parameters_sharded = plan.zero == ZeroStage::Parameters && !shard.empty();
  const Scope sharded_gather =
      plan.pipeline > 1 ? rules.parameter_gather_pipelined : rules.parameter_gather;
  const Scope gather = parameters_sharded ? sharded_gather : rules.depth_gather;
  ParameterPolicy policy;
  const auto stored = [&](const FlatCut& storage, Scope gathered, Scope reduced, auto format) {
    return TensorPolicy{storage, pieces(storage, mesh), gathered, reduced, format};
  };
  policy.parameter = stored(parameters, gather, Scope::Step, precision.parameter);
  policy.gradient = stored(gradients, Scope::Step, reduce, precision.gradient);
  policy.main_gradient = stored(gradients, Scope::Step, reduce, precision.main_gradient);
  policy.master = stored(states, Scope::Step, Scope::Step, precision.master);
  policy.moment = stored(states, Scope::Step, Scope::Step, precision.moment);
  if (rules.shards_in_fp32 && plan.zero >= ZeroStage::Gradients) {
    for (TensorPolicy* own : {&policy.parameter, &policy.gradient, &policy.moment}) {
      if (own->dtype == DataType::Bf16 || own->dtype == DataType::Fp16) own->dtype = DataType::Fp32;
    }
  }
  policy.data = data;
  if (precision.quantised) {
    policy.quantised_wire =
        std::min(1.0, element_size(*precision.quantised) / element_size(precision.gather));
  }
  policy.updated_in_backward = framework.optimizer_in_backward;
  const HostTensors host = host_tensors(plan.on_host);
  policy.parameter.on_host = host.parameters;
  if (host.optimizer) to_host(*framework.optimizer_offload, reduce, policy);
  return policy;
}

}  // namespace

bool depth_cuts(const Network& network, const Block& block, const Operator& op,
                ParameterId parameter, const ShardingRules& rules) {
  if (rules.depth_parameters == DepthParameters::All) return true;
  const std::vector<DimId>& dims = block.parameter(parameter).dims;
  const bool vocabulary = std::ranges::any_of(
      dims, [&](DimId dim) { return network.dimension(dim).role == DimRole::Vocab; });
  // A bias has the dimensions of the output only, however many those are.
  const bool summed = std::ranges::any_of(dims, [&](DimId dim) {
    return std::ranges::none_of(op.outputs, [&](TensorId id) {
      const auto& of_output = block.tensor(id).dims;
      return std::ranges::find(of_output, dim) != of_output.end();
    });
  });
  return traits(op).second_operand == SecondOperand::Weight && summed && !vocabulary;
}

bool is_quantisable(const Network& network, const Block& block, const Operator& op,
                    ParameterId parameter) {
  const bool weight = traits(op).multiplies_weight() && !op.parameters.empty() &&
                      op.parameters.front() == parameter;
  if (!weight || block.parameter(parameter).trainable == Trainable::Yes) return false;
  const std::vector<DimId>& dims = block.parameter(parameter).dims;
  return std::ranges::none_of(dims, [&](DimId dim) {
    const DimRole role = network.dimension(dim).role;
    return role == DimRole::Vocab || role == DimRole::ExpertChoice;
  });
}

DataType frozen_format(const Network& network, const Block& block, const Operator& op,
                       ParameterId parameter, const PrecisionPolicy& formats) {
  const bool quantised = formats.quantised && is_quantisable(network, block, op, parameter);
  return quantised ? *formats.quantised : formats.frozen.value_or(formats.parameter);
}

const MatrixUpdates* matrix_updates(const Framework& framework) {
  const bool whole = framework.updates_matrices && framework.matrix_updates;
  return whole ? &*framework.matrix_updates : nullptr;
}

std::optional<MatrixDims> matrix_dims(const Network& network, const Block& block,
                                      const Operator& op, ParameterId parameter,
                                      const MatrixUpdates& updates) {
  const Parameter& weight = block.parameter(parameter);
  if (weight.kind != ParameterClass::Matrix || weight.trainable == Trainable::No) return {};
  const auto carried = [&](const std::vector<TensorId>& tensors, DimId dim) {
    return std::ranges::any_of(tensors, [&](TensorId id) {
      const std::vector<DimId>& dims = block.tensor(id).dims;
      return std::ranges::find(dims, dim) != dims.end();
    });
  };
  MatrixDims matrix;
  for (std::size_t i = 0; i < weight.dims.size(); ++i) {
    const DimId dim = weight.dims[i];
    const bool pair = network.dimension(dim).role == DimRole::Other && !updates.joined_gate;
    if (!carried(op.outputs, dim)) {
      matrix.rows |= 1U << i;
    } else if (!carried(op.inputs, dim) && !pair) {
      matrix.columns |= 1U << i;
    }
  }
  if (matrix.rows == 0 || matrix.columns == 0) return {};
  return matrix;
}

AxisSet replica_axes(const DeviceMesh& mesh) {
  const bool hybrid = mesh[Axis::Replica].size > 1;
  const AxisSet replicas = hybrid ? AxisSet{Axis::Shard, Axis::Replica} : AxisSet{Axis::Data};
  return mesh.active(replicas | AxisSet{Axis::Context});
}

Scope gradient_reduce_scope(const PlanDegrees& plan, const ShardingRules& rules) {
  if (plan.pipeline > 1 && rules.gradient_reduce_pipelined) return *rules.gradient_reduce_pipelined;
  return rules.gradient_reduce[static_cast<std::size_t>(plan.zero)];
}

TensorPolicies tensor_policies(const PlanDegrees& plan, const DeviceMesh& mesh,
                               const Framework& framework, DataType precision) {
  const PrecisionPolicy& types = precision_policy(framework, precision);
  const bool hybrid = mesh[Axis::Replica].size > 1;
  const AxisSet own = hybrid ? AxisSet{Axis::Shard} : AxisSet{Axis::Data};
  const AxisSet depth = mesh.active({Axis::Depth});
  const AxisSet shard = mesh.active(own | framework.sharding.shard_with);
  const AxisSet expert_data = mesh.active({Axis::ExpertData});
  return {make_policy(plan, mesh, framework, types, depth, shard, replica_axes(mesh)),
          make_policy(plan, mesh, framework, types, {}, expert_data, expert_data),
          matrix_updates(framework)};
}

}  // namespace plansearch
