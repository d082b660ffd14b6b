// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>

#include "io/framework_parts.hpp"

namespace plansearch::io {
namespace {

constexpr std::array<Choice<Scope>, 3> kScopes{
    {{"use", Scope::Use}, {"micro-batch", Scope::MicroBatch}, {"step", Scope::Step}}};
constexpr std::array<Choice<ParameterUnit>, 3> kUnits{{{"parameter", ParameterUnit::Parameter},
                                                       {"launch", ParameterUnit::Launch},
                                                       {"block", ParameterUnit::Block}}};
constexpr std::array<Choice<DepthParameters>, 2> kDepthParameters{
    {{"all", DepthParameters::All}, {"products", DepthParameters::Products}}};
constexpr std::array<Choice<RecomputeGather>, 2> kRecomputeGather{
    {{"shared", RecomputeGather::Shared}, {"repeated", RecomputeGather::Repeated}}};

constexpr std::array<Choice<StepGather>, 2> kStepGather{
    {{"together", StepGather::Together}, {"by-owner", StepGather::ByOwner}}};

constexpr std::array<Choice<ValueStorage>, 2> kValue{
    {{"copy", ValueStorage::Copy}, {"view", ValueStorage::View}}};
constexpr std::array<Choice<ExpertWeights>, 4> kExpertWeights{
    {{"in-activation", ExpertWeights::InActivation},
     {"after-activation", ExpertWeights::AfterActivation},
     {"at-output", ExpertWeights::AtOutput},
     {"at-output-fp32", ExpertWeights::AtOutputSingle}}};
constexpr std::array<Choice<GroupedHeads>, 2> kGroupedHeads{
    {{"shared", GroupedHeads::Shared}, {"as-model", GroupedHeads::AsModel}}};
constexpr std::array<Choice<RouterInput>, 3> kRouter{{{"as-is", RouterInput::AsIs},
                                                      {"fp32", RouterInput::Single},
                                                      {"as-model", RouterInput::AsModel}}};

constexpr std::array<Choice<GradientStorage>, 2> kGradients{
    {{"buffer", GradientStorage::Buffer}, {"in-backward", GradientStorage::Backward}}};

DataType read_type(const Node& node) {
  const std::string text = node.text();
  const auto type = parse_data_type(text);
  if (!type) {
    node.fail(fmt::format("unknown number format '{}'", text),
              "one of fp64, fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4");
  }
  return *type;
}

void read_field(const Node& map, std::string_view key, DataType& field) {
  if (const auto node = map.find(key)) field = read_type(*node);
}

/// As above; "none" says that the tensor is not kept.
void read_field(const Node& map, std::string_view key, std::optional<DataType>& field) {
  const auto node = map.find(key);
  if (!node) return;
  if (node->text() == "none") {
    field.reset();
  } else {
    field = read_type(*node);
  }
}

PrecisionPolicy read_policy(const Node& node, const Framework& framework) {
  PrecisionPolicy policy;
  if (const auto like = node.find("like")) {
    const auto base = framework.precision.find(read_type(*like));
    if (base == framework.precision.end()) {
      like->fail("this precision is not described before", "describe the base first");
    }
    policy = base->second;
  }
  read_field(node, "matmul", policy.matmul);
  read_field(node, "activation", policy.activation);
  read_field(node, "parameter", policy.parameter);
  read_field(node, "gradient", policy.gradient);
  read_field(node, "main_gradient", policy.main_gradient);
  read_field(node, "master", policy.master);
  read_field(node, "moment", policy.moment);
  read_field(node, "reduction", policy.reduction);
  read_field(node, "gather", policy.gather);
  if (!policy.gradient && !policy.main_gradient) {
    node.fail("neither gradient nor main_gradient is kept", "give one of them a number format");
  }
  return policy;
}

void read_scope(const Node& map, std::string_view key, Scope& scope) {
  if (const auto node = map.find(key)) scope = node->choice<Scope>(kScopes);
}

}  // namespace

void read_precision(const Node& map, Framework& framework) {
  for (const Node::Entry& entry : map.entries()) {
    const auto type = parse_data_type(entry.key);
    if (!type) {
      throw InputError(entry.where, fmt::format("unknown number format '{}'", entry.key),
                       "one of fp64, fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4");
    }
    if (entry.value.is_scalar() && entry.value.text() == "none") {
      framework.precision.erase(*type);
    } else {
      framework.precision[*type] = read_policy(entry.value, framework);
    }
  }
}

void read_implementation(const Node& map, Implementation& kept) {
  if (const auto node = map.find("value")) kept.value = node->choice<ValueStorage>(kValue);
  if (const auto node = map.find("expert_weights")) {
    kept.expert_weights = node->choice<ExpertWeights>(kExpertWeights);
  }
  if (const auto node = map.find("grouped_heads")) {
    kept.grouped_heads = node->choice<GroupedHeads>(kGroupedHeads);
  }
  if (const auto node = map.find("router_input")) kept.router = node->choice<RouterInput>(kRouter);
  if (const auto node = map.find("gradients")) {
    kept.gradients = node->choice<GradientStorage>(kGradients);
  }
}

void read_sharding(const Node& map, ShardingRules& rules) {
  read_scope(map, "parameter_gather", rules.parameter_gather);
  read_scope(map, "parameter_gather_pipelined", rules.parameter_gather_pipelined);
  read_scope(map, "depth_gather", rules.depth_gather);
  read_scope(map, "depth_reduce", rules.depth_reduce);
  if (const auto cut = map.find("depth_parameters")) {
    rules.depth_parameters = cut->choice<DepthParameters>(kDepthParameters);
  }
  if (const auto list = map.find("gradient_reduce")) {
    const std::vector<Node> items = list->items();
    if (items.size() != rules.gradient_reduce.size()) {
      list->fail("give one scope for each of the ZeRO stages 0, 1, 2 and 3");
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      rules.gradient_reduce.at(i) = items[i].choice<Scope>(kScopes);
    }
  }
  if (const auto scope = map.find("gradient_reduce_pipelined")) {
    rules.gradient_reduce_pipelined = scope->choice<Scope>(kScopes);
  }
  if (const auto list = map.find("shard_with")) {
    rules.shard_with = {};
    for (const Node& item : list->items()) {
      const std::string text = item.text();
      const auto axis = parse_axis(text);
      if (!axis || *axis != Axis::Context) item.fail("only context ranks shard with data ranks");
      rules.shard_with.insert(*axis);
    }
  }
  if (const auto unit = map.find("unit")) rules.unit = unit->choice<ParameterUnit>(kUnits);
  if (const auto gather = map.find("step_gather")) {
    rules.step_gather = gather->choice<StepGather>(kStepGather);
  }
  if (const auto gather = map.find("recompute_gather")) {
    rules.recompute_gather = gather->choice<RecomputeGather>(kRecomputeGather);
  }
}

}  // namespace plansearch::io
