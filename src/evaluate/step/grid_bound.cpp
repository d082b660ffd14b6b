// SPDX-License-Identifier: Apache-2.0
// Computes: lower bounds of peak memory and step time from the degrees of a plan.
// Source: the fullest device holds no less than the mean; the busiest device works no less than the
//         mean; a micro-batch goes forward and backward through all stages one after the other.
// Assumes: a placement never loses work or parameters; matmuls never beat their fitted rate.
// Units: bytes, seconds.
// Checked by: tests/unit/evaluate/grid_bound_test.cpp
#include "evaluate/step/grid_bound.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "plan/primitives/recompute.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

bool has_expert_dimension(const Network& network, const Parameter& parameter) {
  return std::any_of(parameter.dims.begin(), parameter.dims.end(),
                     [&](DimId dim) { return network.dimension(dim).role == DimRole::Expert; });
}

ParameterCount whole_network(const Network& network, const PrecisionPolicy& formats) {
  ParameterCount total;
  std::set<std::string> shared;
  // A weight may be kept in a smaller format than others: none is counted as larger.
  const double frozen =
      std::min(element_size(formats.frozen.value_or(formats.parameter)),
               element_size(formats.quantised.value_or(formats.frozen.value_or(formats.parameter))))
          .value();
  for (const BlockRun& run : network.order) {
    for (const Parameter& parameter : network.blocks[run.block].parameters) {
      double elements = element_count(network, parameter.dims);
      if (parameter.shared_key.empty()) elements *= static_cast<double>(run.count);
      if (!parameter.shared_key.empty() && !shared.insert(parameter.shared_key).second) continue;
      const bool trains = parameter.trainable == Trainable::Yes;
      const bool expert = has_expert_dimension(network, parameter);
      (expert ? total.expert : total.dense) += elements;
      double& trained = expert ? total.trainable_expert : total.trainable_dense;
      double& kept = expert ? total.frozen_expert : total.frozen_dense;
      trained += trains ? elements : 0.0;
      kept += trains ? 0.0 : elements * frozen;
    }
  }
  return total;
}

/// FLOP/s of the faster of the formats that matrix products run in, tiles full and chip cool.
double best_rate(const Accelerator& chip, const PrecisionPolicy& precision) {
  double best = 0.0;
  for (const DataType type : {precision.matmul, precision.activation}) {
    const auto index = static_cast<std::size_t>(type);
    if (!chip.peak[index] || !chip.kernels.matmul[index]) continue;
    best = std::max(best, chip.peak[index]->value() * chip.kernels.matmul[index]->flop_efficiency);
  }
  return best;
}

}  // namespace

GridBound::GridBound(const PricingContext& context)
    : gpus_(context.problem.gpus),
      global_batch_(static_cast<double>(context.problem.global_batch)),
      gradients_(context.problem.framework->implementation.gradients),
      reserve_(context.constants.memory_workspace + context.constants.memory_context),
      parameters_(whole_network(*context.problem.network, context.precision)) {
  const Network& network = *context.problem.network;
  const SelectiveRecompute& selective = context.problem.framework->selective;
  const double rate = best_rate(context.problem.cluster->accelerator, context.precision);
  if (rate <= 0.0) return;
  for (const BlockRun& run : network.order) {
    const Block& block = network.blocks[run.block];
    std::array<std::vector<double>, 3> repeated;
    for (std::size_t level = 0; level < repeated.size(); ++level) {
      repeated[level] = repeated_shares(block, static_cast<Recompute>(level), selective);
    }
    for (std::size_t i = 0; i < block.operators.size(); ++i) {
      const Operator& op = block.operators[i];
      if (!traits(op).multiplies_weight()) continue;
      const bool grouped = traits(op).second_operand == SecondOperand::GroupedWeights;
      const double slow = grouped ? op.useful_fraction / context.constants.grouped_efficiency : 1.0;
      const Seconds once(2.0 * element_count(network, op.loop) * slow *
                         static_cast<double>(run.count) / rate);
      work_.forward += once;
      if (needs_input_gradient(block, op)) work_.input_gradient += once;
      if (trains_weight(block, op)) work_.weight_gradient += once;
      for (std::size_t level = 0; level < repeated.size(); ++level) {
        work_.repeated[level] += once * repeated[level][i];
      }
    }
  }
}

PlanBound GridBound::of(const PlanDegrees& plan, const ModelStatePolicy& statics,
                        const BlockWaits& waits) const {
  return {step_time(plan, waits), memory(plan, statics)};
}

/// States of the mean stage, every parameter cut over all ranks that can cut it.
Bytes GridBound::memory(const PlanDegrees& plan, const ModelStatePolicy& statics) const {
  // Gradients that the only micro-batch of a plan makes may take the place of activations.
  const bool held = gradients_ == GradientStorage::Buffer;
  const auto state_bytes = [&](const ModelStateBytes& bytes, double frozen, double trainable) {
    const double gradient = held ? bytes.gradient : 0.0;
    return frozen * bytes.share + trainable * bytes.parameter +
           trainable * (gradient + bytes.optimizer);
  };
  const double dense =
      state_bytes(statics.dense, parameters_.frozen_dense, parameters_.trainable_dense) /
      (plan.tensor_in * plan.tensor_out);
  const double expert =
      state_bytes(statics.expert, parameters_.frozen_expert, parameters_.trainable_expert) /
      (static_cast<double>(plan.expert) * plan.expert_tensor * plan.tensor_in);
  return Bytes((dense + expert) / plan.pipeline) + reserve_;
}

/// Every device but waits for exchanges works on; the mean one has no fewer of them.
Seconds GridBound::joined_time(const PlanDegrees& plan, const BlockWaits& waits) const {
  BlockWaits beside;
  beside.forward = waits.beside;
  const Seconds exchange =
      waits.exchange * (plan.pieces * static_cast<double>(plan.micro_batches) / plan.pipeline);
  return std::max(step_time(plan, beside), exchange);
}

Seconds GridBound::step_time(const PlanDegrees& plan, const BlockWaits& waits) const {
  const auto level = static_cast<std::size_t>(plan.recompute);
  // Some layers of a chunk, or parts of a layer, may be as good as none.
  const bool whole = plan.recompute_layers == 0 && plan.modules == 0;
  const Seconds repeated = whole ? work_.repeated[level] : Seconds(0);
  const Seconds waited =
      (waits.forward + waits.backward + (whole ? waits.recompute[level] : Seconds(0))) *
      plan.pieces;
  const Seconds path = work_.forward + work_.input_gradient + repeated;
  const Seconds sequence = path + work_.weight_gradient;
  const double ranks = static_cast<double>(plan.tensor()) * plan.context;
  // Depth ranks compute sequences of their own.
  const double share = plan.micro_batch * static_cast<double>(plan.tensor_depth) / ranks;
  return std::max(sequence * (global_batch_ / gpus_) +
                      waited * (static_cast<double>(plan.micro_batches) / plan.pipeline),
                  path * share + waited - waits.weight_gradient * plan.pieces);
}

}  // namespace plansearch
