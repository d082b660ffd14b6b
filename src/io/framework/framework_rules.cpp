// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/names.hpp"
#include "io/document/fields.hpp"
#include "io/framework/framework_parts.hpp"
#include "plan/legality/legality.hpp"

namespace plansearch::io {
namespace {

constexpr std::array<Choice<UpdateShards>, 3> kShards{{{"replicated", UpdateShards::Replicated},
                                                       {"whole", UpdateShards::Whole},
                                                       {"cut", UpdateShards::Cut}}};

}  // namespace

FrameworkRule read_rule(const Node& node) {
  FrameworkRule rule;
  const Node name = node.at("rule");
  rule.name = name.text();
  const auto& known = framework_rules();
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const RuleDescription& d) { return d.name == rule.name; });
  if (found == known.end()) {
    std::vector<std::string> names;
    for (const RuleDescription& d : known) names.emplace_back(d.name);
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
