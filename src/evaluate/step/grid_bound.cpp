// SPDX-License-Identifier: Apache-2.0
// Computes: lower bounds of peak memory and step time from the degrees of a plan.
// Source: the fullest device holds no less than the mean; the busiest device works no less than the
//         mean; a micro-batch goes forward and backward through all stages one after the other.
// Assumes: a placement never loses work or parameters; no kernel is faster by the element than the
//          same operator on one device that has all of it (unsplit_chip).
// Units: bytes, seconds.
// Checked by: tests/unit/evaluate/grid_bound_test.cpp
#include "evaluate/step/grid_bound.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "evaluate/block/profile_maker.hpp"

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

/// Large enough for what a kernel pays once to vanish beside its elements.
constexpr int kSequences = 1 << 16;
/// Rows of an expert lie between two whole tiles: a chord, not the curve.
constexpr double kChord = 1.0 - 1e-6;

/// A product that fills its waves, on a chip that is cool; its rows are those of the best split.
void fill_waves(std::optional<MatmulCurve>& curve) {
  if (!curve) return;
  curve->launch = curve->split_pass = Seconds(0);
  curve->wave_quantisation = curve->power_droop = 0.0;
  curve->unaligned_rows = 1.0;
}

void fill_waves(std::optional<AttentionCurve>& curve) {
  if (!curve) return;
  curve->launch = curve->token = Seconds(0);
  curve->longest = 0.0;
}

/// The chip without what pieces of an operator may pay less of than all of it together: waves that
/// are not full, heat, launches, rows that are not aligned.
Accelerator unsplit_chip(Accelerator chip) {
  KernelCurves& kernels = chip.kernels;
  for (auto& curve : kernels.matmul) fill_waves(curve);
  fill_waves(kernels.matmul_fp8_block);
  fill_waves(kernels.attention_forward);
  fill_waves(kernels.attention_backward);
  for (AttentionKernel& kernel : kernels.attention) {
    std::optional<AttentionCurve> forward = kernel.forward;
    fill_waves(forward);
    kernel.forward = *forward;
    fill_waves(kernel.backward);
  }
  kernels.stream.launch = kernels.stream.graph_launch = Seconds(0);
  return chip;
}

}  // namespace

GridBound::GridBound(const PricingContext& context)
    : gradients_(context.problem.framework->implementation.gradients),
      pages_(context.problem.framework->paged_states),
      reserve_(context.constants.memory_workspace + context.constants.memory_context),
      parameters_(whole_network(*context.problem.network, context.precision)),
      problem_(context.problem) {}

const NetworkWork& GridBound::sequence() const {
  priced_.run([this] { price_sequence(); });
  return sequence_;
}

void GridBound::price_sequence() const {
  Problem problem = problem_;
  auto cluster = std::make_shared<Cluster>(*problem.cluster);
  cluster->accelerator = unsplit_chip(cluster->accelerator);
  problem.cluster = std::move(cluster);
  const PlanDegrees plan;
  const ProfileMaker profiles(problem);
  const auto all = profiles.placed(plan, make_device_mesh(plan, problem.framework->rank_order), {});
  sequence_.add(profiles.network_work(*all, kSequences), kChord / kSequences);
}

PlanBound GridBound::of(const PlanDegrees& plan, const ModelStatePolicy& statics) const {
  return {step_time(plan, work(plan), {}), memory(plan, statics)};
}

/// Depth ranks compute sequences of their own.
NetworkWork GridBound::work(const PlanDegrees& plan) const {
  const double ranks = static_cast<double>(plan.tensor()) * plan.context * plan.pieces;
  NetworkWork work;
  work.add(sequence(), plan.micro_batch * static_cast<double>(plan.tensor_depth) / ranks);
  return work;
}

namespace {

/// Bytes on a device of the mean stage, every parameter cut over all ranks that can cut it.
Bytes of_mean_device(const PlanDegrees& plan, double dense, double expert) {
  const double cut =
      dense / (plan.tensor_in * plan.tensor_out) +
      expert / (static_cast<double>(plan.expert) * plan.expert_tensor * plan.tensor_in);
  return Bytes(cut / plan.pipeline);
}

}  // namespace

Bytes GridBound::frozen_bytes(const PlanDegrees& plan, const ModelStatePolicy& statics) const {
  return of_mean_device(plan, parameters_.frozen_dense * statics.dense.share,
                        parameters_.frozen_expert * statics.expert.share);
}

Bytes GridBound::memory(const PlanDegrees& plan, const ModelStatePolicy& statics) const {
  // Gradients that the only micro-batch of a plan makes may take the place of activations.
  const bool held = gradients_ == GradientStorage::Buffer;
  const auto state_bytes = [&](const ModelStateBytes& bytes, double frozen, double trainable) {
    const double gradient = held ? bytes.gradient : 0.0;
    return frozen * bytes.share + trainable * bytes.parameter +
           trainable * (gradient + (pages_ ? 0.0 : bytes.optimizer));
  };
  return of_mean_device(
             plan,
             state_bytes(statics.dense, parameters_.frozen_dense, parameters_.trainable_dense),
             state_bytes(statics.expert, parameters_.frozen_expert, parameters_.trainable_expert)) +
         reserve_;
}

/// Every device but waits for exchanges works on; the mean one has no fewer of them.
Seconds GridBound::joined_time(const PlanDegrees& plan, const NetworkWork& work,
                               const BlockWaits& waits) const {
  BlockWaits beside;
  beside.forward = waits.beside;
  const Seconds exchange =
      waits.exchange * (plan.pieces * static_cast<double>(plan.micro_batches) / plan.pipeline);
  return std::max(step_time(plan, work, beside), exchange);
}

/// The mean device has no less than its share of all micro-batches, and one micro-batch goes
/// through all stages.
Seconds GridBound::step_time(const PlanDegrees& plan, const NetworkWork& work,
                             const BlockWaits& waits) const {
  const auto level = static_cast<std::size_t>(plan.recompute);
  // Some layers of a chunk, or parts of a layer, may be as good as none.
  const bool whole = plan.recompute_layers == 0 && plan.modules == 0;
  const Seconds again = whole ? work.repeated[level] + waits.recompute[level] : Seconds(0);
  const Seconds path = work.forward + work.input_gradient + again + waits.forward +
                       (waits.backward - waits.weight_gradient);
  const Seconds gradients = work.weight_gradient + waits.weight_gradient;
  const Seconds piece = path + std::max(gradients, waits.behind);
  const double share = static_cast<double>(plan.micro_batches) / plan.pipeline;
  return std::max(piece * share, path + waits.behind) * plan.pieces;
}

}  // namespace plansearch
