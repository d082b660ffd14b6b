// SPDX-License-Identifier: Apache-2.0
// Computes: the exact intra-operator choice of one block.
// Source: Zheng et al., Alpa (OSDI'22), eq. 1: kernels and own messages at nodes, resharding at
//         edges, memory; solved by elimination (choice_graph.hpp) where Alpa runs an ILP.
// Assumes: what moves a tensor depends on the operators that touch it.
// Units: seconds, elements.
// Checked by: tests/unit/search/intra_op_test.cpp (brute force over all choices)
#include "search/planner/intra_op.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <vector>

#include "search/planner/choice_graph.hpp"

namespace plansearch {
namespace {

SplitChoice all_whole(const OperatorSplit& split) {
  return SplitChoice(split.block().operators.size(), kWhole);
}

/// Calls visit(choice) with every combination of options of some operators, the last one fastest.
template <typename Visit>
void for_each_choice(const OperatorSplit& split, const std::vector<std::size_t>& operators,
                     std::size_t depth, SplitChoice& choice, const Visit& visit) {
  if (depth == operators.size()) {
    visit(choice);
    return;
  }
  const std::size_t op = operators[depth];
  for (const int option : split.options(op)) {
    choice[op] = option;
    for_each_choice(split, operators, depth + 1, choice, visit);
  }
  choice[op] = kWhole;
}

ChoiceGraph graph_of(const OperatorSplit& split) {
  ChoiceGraph graph;
  SplitChoice choice = all_whole(split);
  for (std::size_t op = 0; op < choice.size(); ++op) {
    ChoiceNode& node = graph.nodes.emplace_back();
    for_each_choice(split, {op}, 0, choice, [&](const SplitChoice& made) {
      node.costs.push_back(split.own(op, made).value());
      node.memory.push_back(split.parameters(op, made));
    });
  }
  for (std::size_t t = 0; t < split.block().tensors.size(); ++t) {
    const auto tensor = static_cast<TensorId>(t);
    ChoiceEdge edge{split.touching(tensor), {}};
    if (edge.nodes.empty()) continue;
    for_each_choice(split, edge.nodes, 0, choice, [&](const SplitChoice& made) {
      edge.costs.push_back(split.moving(tensor, made).value());
    });
    graph.edges.push_back(std::move(edge));
  }
  return graph;
}

}  // namespace

std::optional<SplitPlan> best_split(const OperatorSplit& split, double most_parameters) {
  const auto found = best_choices(graph_of(split), most_parameters);
  if (!found) return std::nullopt;
  SplitPlan plan{all_whole(split), Seconds(found->cost), found->memory};
  for (std::size_t op = 0; op < plan.choice.size(); ++op) {
    plan.choice[op] = split.options(op)[found->options[op]];
  }
  return plan;
}

std::string split_text(const OperatorSplit& split, const SplitChoice& choice) {
  std::map<std::string, std::vector<std::string>> cut;  // operators by dimension
  for (std::size_t op = 0; op < choice.size(); ++op) {
    if (choice[op] == kWhole) continue;
    cut[split.cut_dimension(op, choice[op])].push_back(split.block().operators[op].name);
  }
  std::vector<std::string> parts;
  for (const auto& [dimension, operators] : cut) {
    parts.push_back(fmt::format("{} ({})", dimension, fmt::join(operators, ", ")));
  }
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace plansearch
