// SPDX-License-Identifier: Apache-2.0
// Computes: time, exposed communication, saved bytes and parameters of one block on one device.
// Source: sum of kernels; communication derived from placement (communication/derive.hpp); hidden
// share by
//         framework data; a processor that issues kernels slower than the device runs them.
// Assumes: what is hidden slows what hides it by the framework's contention factor.
// Units: seconds, bytes, elements.
// Checked by: tests/unit/evaluate/block_profile_test.cpp
#include "evaluate/block_profile.hpp"

#include <algorithm>

#include "communication/derive.hpp"
#include "cost/collective/place.hpp"
#include "cost/collective_cost.hpp"
#include "evaluate/block_memory.hpp"
#include "evaluate/operator_time.hpp"
#include "plan/recompute.hpp"

namespace plansearch {
namespace {

/// One pass while it is being added up.
struct PassSum {
  Seconds compute;
  double kernels = 0.0;
  double collectives = 0.0;
  double ring_ranks = 0.0;  ///< ranks of every tensor-parallel collective, summed
};

/// Whether consecutive stages can lie on different nodes.
bool pipeline_leaves_node(const ClassContext& context) {
  return context.plan.pipeline > 1 &&
         context.plan.devices() > context.problem.cluster->accelerators_per_node;
}

class BlockProfiler {
 public:
  BlockProfiler(const ClassContext& context, const Block& block)
      : context_(context),
        block_(block),
        placement_(place_block(*context.problem.network, block, context.rules)),
        skew_(pipeline_leaves_node(context) ? context.constants.collective_skew_across_nodes
                                            : context.constants.collective_skew) {}

  BlockProfile run() {
    add_kernels();
    add_communication();
    profile_.forward.issue = issue_time(forward_);
    profile_.backward.issue = issue_time(backward_);
    profile_.recompute.issue = issue_time(recompute_);
    profile_.weight_gradient.issue = issue_time(weights_);
    profile_.forward_length = profile_.forward.length();
    profile_.backward_length = joint_length(profile_.backward, profile_.recompute);
    PassProfile input_gradient = profile_.backward;
    input_gradient.add(profile_.weight_gradient, -1.0);
    profile_.input_length = joint_length(input_gradient, profile_.recompute);
    profile_.weight_length = profile_.weight_gradient.length();
    profile_.memory = block_memory(context_, block_, placement_);
    profile_.memory.cached = gathered_inputs();
    add_parameters();
    return std::move(profile_);
  }

 private:
  void add_kernels() {
    const auto times = operator_times(context_, block_, placement_);
    const auto repeated =
        repeated_shares(block_, context_.plan.recompute, context_.problem.framework->selective);
    for (std::size_t i = 0; i < times.size(); ++i) {
      forward_.compute += times[i].forward;
      forward_.kernels += times[i].forward_kernels;
      backward_.compute += times[i].backward;
      backward_.kernels += times[i].backward_kernels;
      weights_.compute += times[i].weight_gradient;
      weights_.kernels += times[i].weight_kernels;
      recompute_.compute += times[i].forward * repeated[i];
      recompute_.kernels += times[i].forward_kernels * repeated[i];
    }
    profile_.forward.compute = forward_.compute;
    profile_.backward.compute = backward_.compute;
    profile_.weight_gradient.compute = weights_.compute;
    profile_.recompute.compute = recompute_.compute;
  }

  void add_communication() {
    const auto demands =
        derive_communication(*context_.problem.network, block_, context_.rules, placement_,
                             context_.policies, context_.problem.framework->sharding);
    for (const Communication& demand : demands) {
      const Bytes bytes = wire_size(demand.wire, context_.precision) * demand.elements;
      if (demand.scope == Scope::Step || demand.phase == DemandPhase::Step) {
        PricedCommunication reduced{.communication = demand, .bytes = bytes};
        reduced.count = demand.count;
        reduced.shared_key = shared_key(demand);
        profile_.steps.push_back(std::move(reduced));
      } else {
        add_pass_demand(demand, bytes);
      }
    }
  }

  [[nodiscard]] std::string shared_key(const Communication& demand) const {
    const bool one_parameter =
        (demand.subject == Subject::Parameter || demand.subject == Subject::Gradient) &&
        demand.index != kWholeBlock;
    return one_parameter ? block_.parameters[demand.index].shared_key : std::string();
  }

  void add_pass_demand(const Communication& demand, Bytes bytes) {
    const ProcessGroup group = process_group(context_.rules.mesh, demand.axes);
    const CollectiveCost cost =
        collective_cost(*context_.problem.cluster, demand.kind, bytes, group, Setting::InStep);
    PricedCommunication priced{.communication = demand, .bytes = bytes};
    priced.wire_bytes = cost.wire_bytes;
    priced.time = cost.time + in_step_latency(demand.kind, group);
    const bool forward = demand.phase == DemandPhase::Forward;
    expose(forward ? profile_.forward : profile_.backward, forward ? forward_ : backward_, priced,
           cost.transfer);
    if (forward && repeats_whole(block_, context_.plan.recompute) &&
        demand.on_recompute == RecomputeGather::Repeated) {
      expose(profile_.recompute, recompute_, priced, cost.transfer);
    }
    profile_.passes.push_back(std::move(priced));
  }

  /// What a collective issued by a training step pays beyond an isolated one: launch and skew.
  [[nodiscard]] Seconds in_step_latency(CommunicationKind kind, const ProcessGroup& group) const {
    const double local = locate(*context_.problem.cluster, group).local;
    return context_.constants.collective_call +
           context_.constants.collective_rank * latency_steps(kind, local);
  }

  /// Adds all messages of a demand to a pass. What the framework hides costs only contention, and
  /// only moving bytes contends: waiting for a latency disturbs nobody.
  void expose(PassProfile& pass, PassSum& sum, PricedCommunication& priced, Seconds transfer) {
    const Communication& demand = priced.communication;
    const auto kind = static_cast<std::size_t>(overlap_class(demand));
    const bool possible = static_cast<Overlap>(kind) != Overlap::TensorParallel ||
                          context_.problem.cluster->accelerator.user_buffers;
    const double share = possible ? context_.problem.framework->overlap[kind] : 0.0;
    const Seconds total = priced.time * static_cast<double>(demand.count);
    const Seconds hidden = std::min(total * share, sum.compute);
    const Seconds moving = std::min(hidden, transfer * static_cast<double>(demand.count));
    const Seconds exposed = total - hidden + moving * context_.constants.contention[kind];
    sum.compute -= hidden;  // what is hidden here cannot hide more
    sum.collectives += demand.count;
    if (demand.axes.contains(Axis::Out) || demand.axes.contains(Axis::In)) {
      sum.ring_ranks += static_cast<double>(demand.count) * demand.group_size;
    }
    priced.count += demand.count;
    priced.exposed += exposed;
    book(pass, demand, exposed);
    // The weight gradient is a part of backward: what waits for it there waits for it here.
    if (demand.phase != DemandPhase::WeightGradient) return;
    weights_.collectives += demand.count;
    book(profile_.weight_gradient, demand, exposed);
  }

  void book(PassProfile& pass, const Communication& demand, Seconds exposed) const {
    pass.exposed[static_cast<std::size_t>(purpose_of(demand))] += exposed;
    if (spans_nodes(context_.rules.mesh, demand.axes,
                    context_.problem.cluster->accelerators_per_node)) {
      pass.between_nodes += exposed;
    }
  }

  [[nodiscard]] Seconds issue_time(const PassSum& sum) const {
    const FrameworkConstants& c = context_.constants;
    return c.host_launch * (sum.kernels + sum.collectives) + skew_ * sum.ring_ranks;
  }

  /// Results of the activation gathers of one forward pass.
  [[nodiscard]] Bytes gathered_inputs() const {
    Bytes bytes;
    for (const PricedCommunication& pass : profile_.passes) {
      const Communication& demand = pass.communication;
      if (demand.kind != CommunicationKind::AllGather) continue;
      if (demand.phase != DemandPhase::Forward || demand.subject != Subject::Activation) continue;
      bytes += pass.bytes * static_cast<double>(demand.count);
    }
    return bytes;
  }

  void add_parameters() {
    for (std::size_t i = 0; i < block_.operators.size(); ++i) {
      for (const ParameterId id : block_.operators[i].parameters) {
        const Parameter& parameter = block_.parameter(id);
        const double elements = local_parameter_elements(block_, i, id, context_.rules, placement_);
        const bool expert = has_expert_dimension(parameter);
        ParameterCount& count = count_for(parameter);
        (expert ? count.expert : count.dense) += elements;
        if (parameter.trainable == Trainable::Yes) {
          (expert ? count.trainable_expert : count.trainable_dense) += elements;
        }
      }
    }
  }

  /// A parameter that several blocks use is counted once per device.
  ParameterCount& count_for(const Parameter& parameter) {
    if (parameter.shared_key.empty()) return profile_.parameters;
    for (SharedCount& shared : profile_.shared) {
      if (shared.key == parameter.shared_key) return shared.count;
    }
    profile_.shared.push_back({parameter.shared_key, {}});
    return profile_.shared.back().count;
  }

  [[nodiscard]] bool has_expert_dimension(const Parameter& parameter) const {
    return std::any_of(parameter.dims.begin(), parameter.dims.end(), [&](DimId dim) {
      return context_.problem.network->dimension(dim).role == DimRole::Expert;
    });
  }

  const ClassContext& context_;
  const Block& block_;
  BlockPlacement placement_;
  Seconds skew_;
  BlockProfile profile_;
  PassSum forward_;
  PassSum backward_;
  PassSum recompute_;
  PassSum weights_;  ///< part of backward_
};

}  // namespace

ParameterCount& ParameterCount::operator+=(const ParameterCount& other) {
  dense += other.dense;
  expert += other.expert;
  trainable_dense += other.trainable_dense;
  trainable_expert += other.trainable_expert;
  return *this;
}

ParameterCount operator*(ParameterCount count, double copies) {
  return {count.dense * copies, count.expert * copies, count.trainable_dense * copies,
          count.trainable_expert * copies};
}

Seconds PassProfile::exposed_total() const {
  Seconds sum;
  for (const Seconds part : exposed) sum += part;
  return sum;
}

Seconds PassProfile::device() const {
  return compute + exposed_total();
}

void PassProfile::add(const PassProfile& other, double copies) {
  compute += other.compute * copies;
  for (std::size_t i = 0; i < kPurposeCount; ++i) exposed[i] += other.exposed[i] * copies;
  between_nodes += other.between_nodes * copies;
  issue += other.issue * copies;
}

Seconds PassProfile::length() const {
  return std::max(device(), issue);
}

Seconds joint_length(const PassProfile& first, const PassProfile& second) {
  return std::max(first.device() + second.device(), first.issue + second.issue);
}

BlockProfile profile_block(const ClassContext& context, const Block& block) {
  return BlockProfiler(context, block).run();
}

bool spans_nodes(const DeviceMesh& mesh, AxisSet axes, int accelerators_per_node) {
  return process_group(mesh, axes).span() > accelerators_per_node;
}

Overlap overlap_class(const Communication& demand) {
  switch (demand.subject) {
    case Subject::Parameter:
      return Overlap::ParameterGather;
    case Subject::Gradient:
      return Overlap::GradientReduction;
    case Subject::Activation:
    case Subject::ActivationGradient:
    case Subject::Statistics:
      break;
  }
  if (demand.axes.contains(Axis::Expert)) return Overlap::ExpertAllToAll;
  if (demand.axes.contains(Axis::Context)) return Overlap::ContextRing;
  return Overlap::TensorParallel;
}

}  // namespace plansearch
