// SPDX-License-Identifier: Apache-2.0
// Hand-made networks, small enough to derive on paper.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "communication/derive/derive.hpp"
#include "support/moves.hpp"

namespace plansearch::test {

/// One block of a network, built operator by operator.
class BlockBuilder {
 public:
  BlockBuilder() { block.kind = BlockKind::Decoder; }

  DimId dim(const std::string& name, DimRole role, std::int64_t extent) {
    network.dimensions.push_back({name, role, extent});
    return static_cast<DimId>(network.dimensions.size() - 1);
  }
  TensorId tensor(const std::string& name, std::vector<DimId> dims,
                  ElementClass element = ElementClass::Activation) {
    block.tensors.push_back({name, std::move(dims), element});
    return static_cast<TensorId>(block.tensors.size() - 1);
  }
  ParameterId parameter(const std::string& name, std::vector<DimId> dims) {
    Parameter parameter;
    parameter.name = name;
    parameter.dims = std::move(dims);
    block.parameters.push_back(parameter);
    return static_cast<ParameterId>(block.parameters.size() - 1);
  }
  void op(const std::string& name, OperatorKind kind, std::vector<DimId> loop,
          std::vector<TensorId> inputs, std::vector<ParameterId> parameters,
          std::vector<TensorId> outputs) {
    Operator op;
    op.name = name;
    op.kind = kind;
    op.loop = std::move(loop);
    op.inputs = std::move(inputs);
    op.parameters = std::move(parameters);
    op.outputs = std::move(outputs);
    op.flops_per_point = 2.0;
    block.operators.push_back(op);
  }
  Network finish() {
    network.blocks = {block};
    network.order = {{0, 1}};
    return network;
  }

  Network network;
  Block block;
};

/// norm -> up (Hidden -> Ffn) -> gelu -> down (Ffn -> Hidden) -> add residual.
inline Network mlp_block(std::int64_t tokens, std::int64_t hidden, std::int64_t ffn) {
  BlockBuilder b;
  const DimId batch = b.dim("batch", DimRole::Batch, 1);
  const DimId seq = b.dim("sequence", DimRole::Sequence, tokens);
  const DimId h = b.dim("hidden", DimRole::Hidden, hidden);
  const DimId f = b.dim("ffn", DimRole::Ffn, ffn);
  const TensorId x = b.tensor("x", {batch, seq, h});
  const TensorId n = b.tensor("normed", {batch, seq, h});
  const TensorId u = b.tensor("up", {batch, seq, f});
  const TensorId g = b.tensor("gelu", {batch, seq, f});
  const TensorId d = b.tensor("down", {batch, seq, h});
  const TensorId y = b.tensor("y", {batch, seq, h});
  const ParameterId gamma = b.parameter("gamma", {h});
  const ParameterId w1 = b.parameter("w1", {h, f});
  const ParameterId w2 = b.parameter("w2", {f, h});
  b.op("norm", OperatorKind::Norm, {batch, seq, h}, {x}, {gamma}, {n});
  b.op("up", OperatorKind::Matmul, {batch, seq, h, f}, {n}, {w1}, {u});
  b.op("gelu", OperatorKind::Elementwise, {batch, seq, f}, {u}, {}, {g});
  b.op("down", OperatorKind::Matmul, {batch, seq, f, h}, {g}, {w2}, {d});
  b.op("add", OperatorKind::Elementwise, {batch, seq, h}, {x, d}, {}, {y});
  b.block.inputs = {x};
  b.block.outputs = {y};
  return b.finish();
}

/// up and down only: AxoNN's normal and transposed layer.
inline Network linear_pair(std::int64_t tokens, std::int64_t hidden, std::int64_t ffn) {
  BlockBuilder b;
  const DimId batch = b.dim("batch", DimRole::Batch, 1);
  const DimId seq = b.dim("sequence", DimRole::Sequence, tokens);
  const DimId h = b.dim("hidden", DimRole::Hidden, hidden);
  const DimId f = b.dim("ffn", DimRole::Ffn, ffn);
  const TensorId x = b.tensor("x", {batch, seq, h});
  const TensorId u = b.tensor("u", {batch, seq, f});
  const TensorId y = b.tensor("y", {batch, seq, h});
  const ParameterId w1 = b.parameter("w1", {h, f});
  const ParameterId w2 = b.parameter("w2", {f, h});
  b.op("normal", OperatorKind::Matmul, {batch, seq, h, f}, {x}, {w1}, {u});
  b.op("transposed", OperatorKind::Matmul, {batch, seq, f, h}, {u}, {w2}, {y});
  b.block.inputs = {x};
  b.block.outputs = {y};
  return b.finish();
}

/// projections -> attention -> projection, grouped heads.
inline Network attention_block(std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads,
                               std::int64_t head_size) {
  BlockBuilder b;
  const DimId batch = b.dim("batch", DimRole::Batch, 1);
  const DimId seq = b.dim("sequence", DimRole::Sequence, tokens);
  const DimId keys = b.dim("keys", DimRole::KeySequence, tokens);
  const DimId h = b.dim("hidden", DimRole::Hidden, heads * head_size);
  const DimId head = b.dim("head", DimRole::Head, heads);
  const DimId kv = b.dim("kv-head", DimRole::KvHead, kv_heads);
  const DimId size = b.dim("head-size", DimRole::HeadSize, head_size);
  const TensorId x = b.tensor("x", {batch, seq, h});
  const TensorId q = b.tensor("q", {batch, seq, head, size});
  const TensorId k = b.tensor("k", {batch, seq, kv, size});
  const TensorId v = b.tensor("v", {batch, seq, kv, size});
  const TensorId o = b.tensor("o", {batch, seq, head, size});
  const TensorId y = b.tensor("y", {batch, seq, h});
  const ParameterId wq = b.parameter("wq", {h, head, size});
  const ParameterId wk = b.parameter("wk", {h, kv, size});
  const ParameterId wv = b.parameter("wv", {h, kv, size});
  const ParameterId wo = b.parameter("wo", {head, size, h});
  b.op("query", OperatorKind::Matmul, {batch, seq, h, head, size}, {x}, {wq}, {q});
  b.op("key", OperatorKind::Matmul, {batch, seq, h, kv, size}, {x}, {wk}, {k});
  b.op("value", OperatorKind::Matmul, {batch, seq, h, kv, size}, {x}, {wv}, {v});
  b.op("attention", OperatorKind::Attention, {batch, seq, keys, head, size}, {q, k, v}, {}, {o});
  b.op("out", OperatorKind::Matmul, {batch, seq, head, size, h}, {o}, {wo}, {y});
  b.block.inputs = {x};
  b.block.outputs = {y};
  return b.finish();
}

/// dispatch -> experts up, activation, down -> combine.
inline Network expert_block(std::int64_t tokens, std::int64_t hidden, std::int64_t experts,
                            std::int64_t top_k, std::int64_t ffn) {
  BlockBuilder b;
  const DimId batch = b.dim("batch", DimRole::Batch, 1);
  const DimId seq = b.dim("sequence", DimRole::Sequence, tokens);
  const DimId h = b.dim("hidden", DimRole::Hidden, hidden);
  const DimId e = b.dim("expert", DimRole::Expert, experts);
  const DimId r = b.dim("routed", DimRole::Routed, tokens * top_k / experts);
  const DimId f = b.dim("expert-ffn", DimRole::ExpertFfn, ffn);
  const TensorId x = b.tensor("x", {batch, seq, h});
  const TensorId d = b.tensor("dispatched", {e, r, h});
  const TensorId u = b.tensor("up", {e, r, f});
  const TensorId a = b.tensor("activated", {e, r, f});
  const TensorId o = b.tensor("down", {e, r, h});
  const TensorId y = b.tensor("y", {batch, seq, h});
  const ParameterId w1 = b.parameter("w1", {e, h, f});
  const ParameterId w2 = b.parameter("w2", {e, f, h});
  b.op("dispatch", OperatorKind::Dispatch, {e, r, h}, {x}, {}, {d});
  b.op("up", OperatorKind::GroupedMatmul, {e, r, h, f}, {d}, {w1}, {u});
  b.op("act", OperatorKind::Elementwise, {e, r, f}, {u}, {}, {a});
  b.op("down", OperatorKind::GroupedMatmul, {e, r, f, h}, {a}, {w2}, {o});
  b.op("combine", OperatorKind::Combine, {batch, seq, h}, {o}, {}, {y});
  b.block.inputs = {x};
  b.block.outputs = {y};
  return b.finish();
}

/// A framework without habits: every degree allowed, everything per parameter.
inline Framework plain_framework() {
  Framework framework;
  framework.name = "plain";
  framework.rank_order = {Axis::In,      Axis::Out,  Axis::Depth,
                          Axis::Context, Axis::Data, Axis::Pipeline};
  framework.precision[DataType::Bf16] = PrecisionPolicy{};
  framework.sharding.unit = ParameterUnit::Parameter;
  return framework;
}

/// Everything one copy of `block` communicates, ordered by phase, then by operator in the order
/// that phase visits them.
inline std::vector<Communication> derive_communication(const Network& network, const Block& block,
                                                       const PlacementRules& rules,
                                                       const BlockPlacement& placement,
                                                       const TensorPolicies& policies,
                                                       const ShardingRules& sharding) {
  const BlockIndex index = index_block(network, block);
  const DerivationInput input{network, block, index, rules, placement, sharding};
  const DerivationScratchPtr scratch = make_derivation_scratch();
  std::vector<Communication> operators;
  std::vector<Communication> parameters;
  derive_operator_communication(input, *scratch, operators);
  derive_parameter_communication(input, policies, *scratch, parameters);
  std::vector<Communication> demands;
  demands.reserve(operators.size() + parameters.size());
  std::merge(operators.begin(), operators.end(), parameters.begin(), parameters.end(),
             std::back_inserter(demands), comes_before);
  return demands;
}

/// All that the first block sends where single operators are placed on factors.
inline std::vector<Communication> placed_messages(const Network& network,
                                                  const Placements& placements) {
  PlanDegrees plan;
  for (const int factor : placements.factors) plan.tensor_out *= factor;
  const Framework framework = plain_framework();
  const DeviceMesh mesh =
      with_factors(make_device_mesh(plan, framework.rank_order), placements.factors);
  const PlacementRules rules = placement_rules(network, plan, mesh, framework, &placements);
  return derive_communication(
      network, network.blocks[0], rules, place_block(network, network.blocks[0], rules),
      tensor_policies(plan, mesh, framework, DataType::Bf16), framework.sharding);
}

/// ... but for its parameters.
inline std::vector<Communication> operator_messages(const Network& network,
                                                    const Placements& placements) {
  std::vector<Communication> messages = placed_messages(network, placements);
  std::erase_if(messages, [](const Communication& message) {
    return message.subject == Subject::Parameter || message.subject == Subject::Gradient;
  });
  return messages;
}

inline std::vector<Communication> derive(const Network& network, const PlanDegrees& plan,
                                         const Framework& framework = plain_framework()) {
  const DeviceMesh mesh = make_device_mesh(plan, framework.rank_order);
  const PlacementRules rules = placement_rules(network, plan, mesh, framework);
  const Block& block = network.blocks.front();
  return derive_communication(network, block, rules, place_block(network, block, rules),
                              tensor_policies(plan, mesh, framework, DataType::Bf16),
                              framework.sharding);
}

/// One line per demand: "forward: all-reduce in x2 of y, 4096" (and "3 x" before the kind).
inline std::vector<std::string> lines(const Network& network,
                                      const std::vector<Communication>& demands) {
  std::vector<std::string> result;
  for (const Communication& demand : demands) {
    std::string line{to_text(demand.phase)};
    line += ": ";
    if (demand.count != 1) line += std::to_string(demand.count) + " ";
    line += std::string{to_text(demand.kind)} + " " + to_text(demand.axes) + " x" +
            std::to_string(demand.group_size) + " of " +
            subject_name(network.blocks.front(), demand) + ", " +
            std::to_string(static_cast<long long>(demand.elements)) + " per " +
            std::string{to_text(demand.scope)};
    result.push_back(line);
  }
  return result;
}

}  // namespace plansearch::test
