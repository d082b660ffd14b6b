// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "io/document/fields.hpp"
#include "io/framework/framework_reader.hpp"
#include "plan/legality/legality.hpp"

namespace plansearch::io {
namespace {

constexpr std::array<Choice<Scope>, 3> kScopes{
    {{"use", Scope::Use}, {"micro-batch", Scope::MicroBatch}, {"step", Scope::Step}}};

DataType read_type(const Node& node) {
  const std::string text = node.text();
  const auto type = parse_data_type(text);
  if (!type) {
    node.fail(fmt::format("unknown number format '{}'", text),
              "one of fp64, fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4");
  }
  return *type;
}

/// "none": the tensor is not kept.
std::optional<DataType> read_kept_type(const Node& node) {
  return node.text() == "none" ? std::nullopt : std::optional(read_type(node));
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
  const Fields fields(node);
  fields.take("matmul", policy.matmul, read_type);
  fields.take("activation", policy.activation, read_type);
  fields.take("parameter", policy.parameter, read_type);
  fields.take("frozen", policy.frozen, read_type);
  fields.take("gradient", policy.gradient, read_kept_type);
  fields.take("main_gradient", policy.main_gradient, read_kept_type);
  fields.take("master", policy.master, read_kept_type);
  fields.take("moment", policy.moment, read_type);
  fields.take("reduction", policy.reduction, read_type);
  fields.take("gather", policy.gather, read_type);
  fields.take("dispatch", policy.dispatch, read_type);
  fields.take("saved", policy.saved, read_type);
  fields.take("kept_inputs", policy.kept_inputs, read_type);
  if (!policy.gradient && !policy.main_gradient) {
    node.fail("neither gradient nor main_gradient is kept", "give one of them a number format");
  }
  return policy;
}

constexpr std::array<Choice<UpdateShards>, 3> kShards{{{"replicated", UpdateShards::Replicated},
                                                       {"whole", UpdateShards::Whole},
                                                       {"cut", UpdateShards::Cut}}};

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
  const Fields fields(map);
  fields.take("value", kept.value, {{"copy", ValueStorage::Copy}, {"view", ValueStorage::View}});
  fields.take("expert_weights", kept.expert_weights,
              {{"in-activation", ExpertWeights::InActivation},
               {"after-activation", ExpertWeights::AfterActivation},
               {"at-output", ExpertWeights::AtOutput},
               {"at-output-fp32", ExpertWeights::AtOutputSingle}});
  fields.take("grouped_heads", kept.grouped_heads,
              {{"shared", GroupedHeads::Shared}, {"as-model", GroupedHeads::AsModel}});
  fields.take("router_input", kept.router,
              {{"as-is", RouterInput::AsIs},
               {"fp32", RouterInput::Single},
               {"as-model", RouterInput::AsModel}});
  fields.take("recurrence_context", kept.recurrence_context,
              {{"heads", RecurrenceContext::Heads}, {"states", RecurrenceContext::States}});
  fields.take("norms", kept.norm_part, {{"own", NormPart::Own}, {"product", NormPart::Product}});
  fields.take("logits", kept.loss,
              {{"as-produced", LossInput::AsProduced}, {"fp32", LossInput::Single}});
  fields.take("gradients", kept.gradients,
              {{"buffer", GradientStorage::Buffer}, {"in-backward", GradientStorage::Backward}});
}

void read_sharding(const Node& map, ShardingRules& rules) {
  const Fields fields(map);
  fields.take("parameter_gather", rules.parameter_gather, kScopes);
  fields.take("parameter_gather_pipelined", rules.parameter_gather_pipelined, kScopes);
  fields.take("depth_gather", rules.depth_gather, kScopes);
  fields.take("depth_reduce", rules.depth_reduce, kScopes);
  fields.take("depth_parameters", rules.depth_parameters,
              {{"all", DepthParameters::All}, {"products", DepthParameters::Products}});
  fields.with("gradient_reduce", [&](const Node& list) {
    const std::vector<Node> items = list.items();
    if (items.size() != rules.gradient_reduce.size()) {
      list.fail("give one scope for each of the ZeRO stages 0, 1, 2 and 3");
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      rules.gradient_reduce.at(i) = items[i].choice<Scope>(kScopes);
    }
  });
  fields.take("gradient_reduce_pipelined", rules.gradient_reduce_pipelined, kScopes);
  fields.with("shard_with", [&](const Node& list) {
    rules.shard_with = {};
    for (const Node& item : list.items()) {
      const auto axis = parse_axis(item.text());
      if (!axis || *axis != Axis::Context) item.fail("only context ranks shard with data ranks");
      rules.shard_with.insert(*axis);
    }
  });
  fields.take("unit", rules.unit,
              {{"parameter", ParameterUnit::Parameter},
               {"launch", ParameterUnit::Launch},
               {"block", ParameterUnit::Block}});
  fields.take("step_gather", rules.step_gather,
              {{"together", StepGather::Together}, {"by-owner", StepGather::ByOwner}});
  fields.take("shards_in_fp32", rules.shards_in_fp32, &Node::boolean);
  fields.take("recompute_gather", rules.recompute_gather,
              {{"shared", RecomputeGather::Shared}, {"repeated", RecomputeGather::Repeated}});
}

FrameworkRule read_rule(const Node& node) {
  FrameworkRule rule;
  const Node name = node.at("rule");
  rule.name = name.text();
  const auto& known = framework_rules();
  const auto found = std::ranges::find(known, rule.name, &RuleDescription::name);
  if (found == known.end()) {
    const auto names = transformed<std::string>(known, &RuleDescription::name);
    std::string hint = did_you_mean(rule.name, names);
    if (hint.empty()) hint = fmt::format("the rules are {}", fmt::join(names, ", "));
    name.fail(fmt::format("unknown rule '{}'", rule.name), hint);
  }
  if (found->takes_limit) rule.limit = node.at("limit").number();
  if (!found->takes_limit && node.find("limit")) {
    node.at("limit").fail(fmt::format("rule '{}' has no limit", rule.name));
  }
  rule.message = node.at("message").text();
  return rule;
}

std::optional<MatrixUpdates> read_matrix_updates(const Node& node) {
  if (!node.is_map()) {
    if (node.text() != "none") {
      node.fail("matrix_updates is none or {shards, slices, ...}",
                "docs/frameworks.md lists the keys");
    }
    return std::nullopt;
  }
  MatrixUpdates updates;
  const Fields fields(node);
  updates.shards = node.at("shards").choice<UpdateShards>(kShards);
  fields.take("slices", updates.slices,
              {{"apart", UpdateSlices::Apart},
               {"gathered", UpdateSlices::Gathered},
               {"summed", UpdateSlices::Summed},
               {"dealt", UpdateSlices::Dealt}});
  fields.take("deal", updates.deal,
              {{"balanced", UpdateDeal::Balanced}, {"by-kind", UpdateDeal::ByKind}});
  fields.take("iteration", updates.iteration,
              {{"direct", UpdateIteration::Direct}, {"gram", UpdateIteration::Gram}});
  fields.take("iterations", updates.iterations,
              [](const Node& count) { return count.count(1, 100); });
  fields.take("joined_gate", updates.joined_gate, &Node::boolean);
  fields.with("rules", [&](const Node& rules) {
    for (const Node& rule : rules.items()) updates.rules.push_back(read_rule(rule));
  });
  return updates;
}

}  // namespace plansearch::io
