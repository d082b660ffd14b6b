// SPDX-License-Identifier: Apache-2.0
#include "support/toy_problem.hpp"

#include "plansearch/transformer_builder.hpp"
#include "unit/cost/frozen_hardware.hpp"

namespace plansearch::test {
namespace {

ModelDescription toy_gpt(const ToyOptions& options) {
  ModelDescription model;
  model.name = "toy-gpt";
  model.layers = options.layers;
  model.hidden = options.hidden;
  model.attention.heads = options.heads;
  model.attention.kv_heads = options.kv_heads > 0 ? options.kv_heads : options.heads;
  model.attention.head_size = options.hidden / options.heads;
  model.mlp.width = 4 * options.hidden;
  if (options.experts > 0) {
    MoeDescription moe;
    moe.experts = options.experts;
    moe.top_k = options.top_k;
    moe.expert_width = model.mlp.width;
    moe.imbalance = options.imbalance;
    model.moe = moe;
  }
  model.embedding.vocab = 51200;
  model.embedding.tied = options.tied;
  model.training.seq_len = options.seq_len;
  model.training.global_batch = options.global_batch;
  return model;
}

}  // namespace

Framework toy_framework() {
  Framework framework;
  framework.name = "toy";
  framework.rank_order = {Axis::Out,     Axis::In,   Axis::Depth,
                          Axis::Context, Axis::Data, Axis::Pipeline};
  PrecisionPolicy precision;
  precision.gradient = std::nullopt;
  precision.main_gradient = DataType::Fp32;
  precision.master = DataType::Fp32;
  precision.reduction = DataType::Fp32;
  framework.precision[DataType::Bf16] = precision;
  framework.vocab_multiple = 128;
  framework.constants = {{"host_launch", 20e-6},
                         {"host_step", 5e-3},
                         {"host_runs_ahead_of_stage", 0},
                         {"host_parameter", 0},
                         {"host_slice", 0},
                         {"boundary_scatter_gather", 0},
                         {"collective_call", 40e-6},
                         {"collective_rank", 4e-6},
                         {"collective_skew", 4e-6},
                         {"collective_skew_across_nodes", 4e-6},
                         {"attention_factor", 1},
                         {"accumulation_bytes", 6},
                         {"optimizer_factor", 1.1},
                         {"expert_launch", 20e-6},
                         {"pads_products", 0},
                         {"grouped_efficiency", 0.75},
                         {"sink_attention_factor", 7},
                         {"contention_gradient_reduction", 0.2},
                         {"contention_parameter_gather", 0.2},
                         {"contention_pipeline_send", 0},
                         {"contention_tensor_parallel", 0},
                         {"contention_context_ring", 0},
                         {"contention_expert_all_to_all", 0},
                         {"memory_logit_bytes", 6},
                         {"memory_previous_logit_bytes", 0},
                         {"memory_live_bytes", 0},
                         {"memory_loss_through_backward", 0},
                         {"memory_attention_copies", 0},
                         {"memory_reduction_bytes", 0},
                         {"memory_gathered_cached", 0},
                         {"memory_context", 6e8},
                         {"memory_workspace", 1e8},
                         {"memory_fragmentation", 1.05},
                         {"memory_error_median", 1.02},
                         {"memory_error_below", 0.05},
                         {"memory_error_above", 0.1},
                         {"sigma", 0.05},
                         {"sigma_experts", 0},
                         {"paired_sigma", 0.02}};
  return framework;
}

Problem toy_problem(const ToyOptions& options) {
  const FrozenHardware hardware;
  Cluster cluster = hardware.several_nodes("nvlink3-switch", "infiniband", 200e9, 8, 32);
  cluster.accelerator = hardware.accelerator("A100-SXM4-80GB");
  cluster.accelerators_per_node = 8;
  cluster.unmeasured_sigma = 0.12;
  cluster.accelerator.kernels.attention_forward =
      hardware.attention("A100-SXM4-80GB", "flash2.forward");
  cluster.accelerator.kernels.attention_backward =
      hardware.attention("A100-SXM4-80GB", "flash2.backward");
  cluster.accelerator.memory = Bytes(options.memory_gib * 1073741824.0);
  Problem problem;
  problem.cluster = std::make_shared<const Cluster>(std::move(cluster));
  problem.model = std::make_shared<const ModelDescription>(toy_gpt(options));
  problem.network = std::make_shared<const Network>(build_network(*problem.model));
  problem.framework = std::make_shared<const Framework>(toy_framework());
  problem.gpus = options.gpus;
  problem.global_batch = options.global_batch;
  problem.seq_len = options.seq_len;
  return problem;
}

}  // namespace plansearch::test
