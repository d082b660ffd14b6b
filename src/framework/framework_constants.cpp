// SPDX-License-Identifier: Apache-2.0
#include "plansearch/framework_constants.hpp"

namespace plansearch {
namespace {

using C = FrameworkConstants;

template <auto Field>
ConstantField at(C& constants) {
  return &(constants.*Field);
}

template <Overlap Hidden>
ConstantField hidden(C& constants) {
  return &constants.contention[static_cast<std::size_t>(Hidden)];
}

template <auto Side>
ConstantField error_at(C& constants) {
  return &(constants.memory_error.*Side);
}

constexpr ConstantRow kRows[] = {
    {"host_launch", at<&C::host_launch>, "host CPU time to issue one kernel"},
    {"host_step", at<&C::host_step>, "host CPU time per optimizer step: data, logging, clipping"},
    {"host_parameter", at<&C::host_parameter>,
     "host CPU time per sharded parameter tensor and step"},
    {"host_slice", at<&C::host_slice>,
     "host CPU time per parameter tensor, rank that its states are cut over, and step"},
    {"host_runs_ahead_of_stage", at<&C::host_runs_ahead_of_stage>,
     "1: waits even out over a stage; 0: only over a block"},
    {"boundary_scatter_gather", at<&C::boundary_scatter_gather>,
     "1: stage boundaries send a slice per tensor rank and gather it; 0: all of it"},
    {"collective_call", at<&C::collective_call>,
     "launch and skew added to every collective of a step"},
    {"collective_rank", at<&C::collective_rank>,
     "added per further rank of the group inside a node"},
    {"collective_skew", at<&C::collective_skew>,
     "host CPU time per rank of a tensor-parallel collective"},
    {"collective_skew_across_nodes", at<&C::collective_skew_across_nodes>,
     "the same when a pipeline spans nodes"},
    {"attention_factor", at<&C::attention_factor>,
     "time of fused attention over the published curve"},
    {"accumulation_bytes", at<&C::accumulation_bytes>,
     "bytes per parameter and micro-batch to add up gradients"},
    {"optimizer_factor", at<&C::optimizer_factor>,
     "optimizer traffic over touching every state once"},
    {"expert_launch", at<&C::expert_launch>, "per local expert and grouped matmul"},
    {"pads_products", at<&C::pads_products>,
     "1: a compiler pads products to rows of whole vectors; 0: they run as cut"},
    {"grouped_efficiency", at<&C::grouped_efficiency>, "rate of grouped matmuls over plain ones"},
    {"sink_attention_factor", at<&C::sink_attention_factor>,
     "slow-down of attention with learned sinks"},
    {"contention_gradient_reduction", hidden<Overlap::GradientReduction>,
     "seconds lost per second of hidden reduction"},
    {"contention_parameter_gather", hidden<Overlap::ParameterGather>,
     "seconds lost per second of hidden gathering"},
    {"contention_pipeline_send", hidden<Overlap::PipelineSend>,
     "seconds lost per second of hidden sends"},
    {"contention_tensor_parallel", hidden<Overlap::TensorParallel>,
     "seconds lost per second of hidden tensor traffic"},
    {"contention_context_ring", hidden<Overlap::ContextRing>,
     "seconds lost per second of hidden ring traffic"},
    {"contention_expert_all_to_all", hidden<Overlap::ExpertAllToAll>,
     "seconds lost per second of hidden exchange"},
    {"memory_logit_bytes", at<&C::memory_logit_bytes>,
     "bytes per logit at the peak beyond what the loss saves"},
    {"memory_previous_logit_bytes", at<&C::memory_previous_logit_bytes>,
     "the same of the micro-batch before"},
    {"memory_live_bytes", at<&C::memory_live_bytes>,
     "bytes live per token and hidden feature around a block"},
    {"memory_loss_through_backward", at<&C::memory_loss_through_backward>,
     "1: loss tensors live until the backward pass ends; 0: freed before"},
    {"memory_update_of_lists", at<&C::memory_update_of_lists>,
     "1: AdamW updates lists of tensors, beside the root of every second moment; 0: in one kernel"},
    {"memory_attention_copies", at<&C::memory_attention_copies>,
     "bytes kept per query element by layout and rotary copies"},
    {"memory_reduction_bytes", at<&C::memory_reduction_bytes>,
     "bytes of reduction buffers per parameter with several data ranks"},
    {"memory_reduction_most", at<&C::memory_reduction_most>, "these buffers at most; 0: no limit"},
    {"memory_gathered_cached", at<&C::memory_gathered_cached>,
     "share of gathered inputs the allocator keeps cached without a pipeline"},
    {"memory_context", at<&C::memory_context>, "driver context and library memory of the process"},
    {"memory_workspace", at<&C::memory_workspace>, "kernel workspaces inside the allocator"},
    {"memory_fragmentation", at<&C::memory_fragmentation>, "reserved over allocated memory"},
    {"memory_error_median", error_at<&MemoryError::median>,
     "needed over predicted peak memory, median"},
    {"memory_error_below", error_at<&MemoryError::below>,
     "log standard deviation of that ratio below its median"},
    {"memory_error_above", error_at<&MemoryError::above>,
     "log standard deviation of that ratio above its median"},
    {"sigma", at<&C::sigma>,
     "log standard deviation of step times beyond that of kernels and links"},
    {"sigma_experts", at<&C::sigma_experts>,
     "further error of mixtures of experts, by their share of the FLOPs"},
    {"paired_sigma", at<&C::paired_sigma>, "the same for the ratio of two plans of one problem"},
};

}  // namespace

std::string_view to_text(Overlap overlap) {
  static constexpr std::array<std::string_view, kOverlapCount> kWords{
      "gradient_reduction", "parameter_gather", "pipeline_send",
      "tensor_parallel",    "context_ring",     "expert_all_to_all"};
  return kWords.at(static_cast<std::size_t>(overlap));
}

std::span<const ConstantRow> framework_constant_rows() {
  return kRows;
}

}  // namespace plansearch
