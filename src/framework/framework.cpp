// SPDX-License-Identifier: Apache-2.0
#include "plansearch/framework.hpp"

#include "plansearch/error.hpp"

namespace plansearch {

std::string_view to_text(Overlap overlap) {
  switch (overlap) {
    case Overlap::GradientReduction:
      return "gradient_reduction";
    case Overlap::ParameterGather:
      return "parameter_gather";
    case Overlap::PipelineSend:
      return "pipeline_send";
    case Overlap::TensorParallel:
      return "tensor_parallel";
    case Overlap::ContextRing:
      return "context_ring";
    case Overlap::ExpertAllToAll:
      return "expert_all_to_all";
  }
  throw InternalError("unknown overlap");
}

std::string_view to_text(LayerDistribution value) {
  switch (value) {
    case LayerDistribution::EvenOnly:
      return "even";
    case LayerDistribution::EvenCeil:
      return "first-more";
    case LayerDistribution::EvenInner:
      return "inner-more";
    case LayerDistribution::EmbeddingAndHeadCount:
      return "by-cost";
  }
  throw InternalError("unknown layer distribution");
}

std::string_view to_text(OptimizerStart value) {
  switch (value) {
    case OptimizerStart::Together:
      return "together";
    case OptimizerStart::PerDevice:
      return "per-device";
    case OptimizerStart::PostValidated:
      return "post-validated";
  }
  throw InternalError("unknown optimizer start");
}

const std::vector<ConstantDescription>& framework_constant_descriptions() {
  using enum ConstantUnit;
  static const std::vector<ConstantDescription> kDescriptions{
      {"host_launch", Time, "host CPU time to issue one kernel"},
      {"host_step", Time, "host CPU time per optimizer step: data, logging, clipping"},
      {"host_parameter", Time, "host CPU time per sharded parameter tensor and step"},
      {"host_slice", Time,
       "host CPU time per parameter tensor, rank that its states are cut over, and step"},
      {"host_runs_ahead_of_stage", Number, "1: waits even out over a stage; 0: only over a block"},
      {"boundary_scatter_gather", Number,
       "1: stage boundaries send a slice per tensor rank and gather it; 0: all of it"},
      {"collective_call", Time, "launch and skew added to every collective of a step"},
      {"collective_rank", Time, "added per further rank of the group inside a node"},
      {"collective_skew", Time, "host CPU time per rank of a tensor-parallel collective"},
      {"collective_skew_across_nodes", Time, "the same when a pipeline spans nodes"},
      {"attention_factor", Number, "time of fused attention over the published curve"},
      {"accumulation_bytes", Number, "bytes per parameter and micro-batch to add up gradients"},
      {"optimizer_factor", Number, "optimizer traffic over touching every state once"},
      {"expert_launch", Time, "per local expert and grouped matmul"},
      {"pads_products", Number,
       "1: a compiler pads products to rows of whole vectors; 0: they run as cut"},
      {"grouped_efficiency", Number, "rate of grouped matmuls over plain ones"},
      {"sink_attention_factor", Number, "slow-down of attention with learned sinks"},
      {"contention_gradient_reduction", Number, "seconds lost per second of hidden reduction"},
      {"contention_parameter_gather", Number, "seconds lost per second of hidden gathering"},
      {"contention_pipeline_send", Number, "seconds lost per second of hidden sends"},
      {"contention_tensor_parallel", Number, "seconds lost per second of hidden tensor traffic"},
      {"contention_context_ring", Number, "seconds lost per second of hidden ring traffic"},
      {"contention_expert_all_to_all", Number, "seconds lost per second of hidden exchange"},
      {"memory_logit_bytes", Number, "bytes per logit at the peak beyond what the loss saves"},
      {"memory_previous_logit_bytes", Number, "the same of the micro-batch before"},
      {"memory_live_bytes", Number, "bytes live per token and hidden feature around a block"},
      {"memory_loss_through_backward", Number,
       "1: loss tensors live until the backward pass ends; 0: freed before"},
      {"memory_attention_copies", Number,
       "bytes kept per query element by layout and rotary copies"},
      {"memory_reduction_bytes", Number,
       "bytes of reduction buffers per parameter with several data ranks"},
      {"memory_gathered_cached", Number,
       "share of gathered inputs the allocator keeps cached without a pipeline"},
      {"memory_context", Data, "driver context and library memory of the process"},
      {"memory_workspace", Data, "kernel workspaces inside the allocator"},
      {"memory_fragmentation", Number, "reserved over allocated memory"},
      {"memory_error_median", Number, "needed over predicted peak memory, median"},
      {"memory_error_below", Number, "log standard deviation of that ratio below its median"},
      {"memory_error_above", Number, "log standard deviation of that ratio above its median"},
      {"sigma", Number, "log standard deviation of step times beyond that of kernels and links"},
      {"sigma_experts", Number,
       "further error of mixtures of experts, by their share of the FLOPs"},
      {"paired_sigma", Number, "the same for the ratio of two plans of one problem"},
  };
  return kDescriptions;
}

}  // namespace plansearch
