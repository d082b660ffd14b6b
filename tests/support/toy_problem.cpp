// SPDX-License-Identifier: Apache-2.0
#include "support/toy_problem.hpp"

#include "plansearch/transformer_builder.hpp"
#include "support/frozen_hardware.hpp"

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
  FrameworkConstants& c = framework.constants;
  c.host_launch = Seconds(20e-6);
  c.host_step = Seconds(5e-3);
  c.collective_call = Seconds(40e-6);
  c.collective_rank = c.collective_skew = c.collective_skew_across_nodes = Seconds(4e-6);
  c.accumulation_bytes = 6;
  c.optimizer_factor = 1.1;
  c.expert_launch = Seconds(20e-6);
  c.grouped_efficiency = 0.75;
  c.sink_attention_factor = 7;
  c.contention[static_cast<std::size_t>(Overlap::GradientReduction)] = 0.2;
  c.contention[static_cast<std::size_t>(Overlap::ParameterGather)] = 0.2;
  c.memory_logit_bytes = 6;
  c.memory_context = Bytes(6e8);
  c.memory_workspace = Bytes(1e8);
  c.memory_fragmentation = 1.05;
  c.memory_error = {1.02, 0.05, 0.1};
  c.sigma = 0.05;
  c.paired_sigma = 0.02;
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

Problem squares_problem() {
  ToyOptions options;
  options.layers = 4;
  options.gpus = 16;
  Problem problem = toy_problem(options);
  auto framework = std::make_shared<Framework>(*problem.framework);
  framework->operator_steps = OperatorSteps::Squares;
  problem.framework = framework;
  return problem;
}

}  // namespace plansearch::test
