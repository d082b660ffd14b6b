// SPDX-License-Identifier: Apache-2.0
// Computes:   the nodes and edges of a micro-batch, and a sequence of them.
// Source:     definitions; Kahn (1962) for the sequence; Lin et al., nnScaler (OSDI 2024), section
//             3 for several forward passes (recycling).
// Assumes:    only the last forward pass of a micro-batch is differentiated.
// Units:      none.
// Checked by: tests/unit/schedule/orders/several_forwards_test.cpp
#include "schedule/templates/task_template.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace plansearch {

TaskTemplate::TaskTemplate(int devices, std::vector<TemplateNode> nodes,
                           std::span<const TemplateEdge> edges)
    : devices_(devices),
      nodes_(std::move(nodes)),
      first_input_(nodes_.size() + 1, 0),
      inputs_(edges.size()) {
  for (const TemplateEdge& edge : edges) ++first_input_[edge.to + 1];
  std::partial_sum(first_input_.begin(), first_input_.end(), first_input_.begin());
  std::vector<std::uint32_t> next(first_input_.begin(), first_input_.end() - 1);
  for (const TemplateEdge& edge : edges) inputs_[next[edge.to]++] = edge.from;
}

std::vector<NodeId> TaskTemplate::sequence() const {
  std::vector<NodeId> order;
  std::vector<bool> placed(size(), false);
  for (bool moved = true; moved;) {
    moved = false;
    for (NodeId id = 0; id < size(); ++id) {
      const auto needs = inputs(id);
      if (placed[id] ||
          !std::all_of(needs.begin(), needs.end(), [&](NodeId input) { return placed[input]; })) {
        continue;
      }
      placed[id] = moved = true;
      order.push_back(id);
    }
  }
  return order;
}

std::vector<std::size_t> stages_by_place(const ComputeOrder& order) {
  std::vector<std::size_t> stages(order.pipeline.size());
  for (std::size_t k = 0; k < order.pipeline.size(); ++k) {
    const StagePlace& place = order.pipeline[k];
    stages[static_cast<std::size_t>(place.device * order.chunks() + place.chunk)] = k;
  }
  return stages;
}

TaskTemplate pipeline_template(const ComputeOrder& order) {
  const PipelineNodes nodes(order);
  const std::size_t stages = order.pipeline.size();
  const std::size_t replica = stages / static_cast<std::size_t>(order.replicas);
  std::vector<TemplateNode> made(stages * nodes.of_stage);
  std::vector<TemplateEdge> edges;
  for (std::size_t k = 0; k < stages; ++k) {
    const std::size_t along = k % replica;
    const int group = static_cast<int>(k);
    const std::vector<int> where{order.pipeline[k].device};
    for (int pass = 0; pass < order.forwards; ++pass) {
      const NodeId forward = nodes.of(k, Phase::Forward, pass);
      made[forward] = {group, pass, Phase::Forward, where};
      if (along > 0) {
        edges.push_back({nodes.of(k - 1, Phase::Forward, pass), forward});
      } else if (pass > 0) {
        edges.push_back({nodes.of(k + replica - 1, Phase::Forward, pass - 1), forward});
      }
    }
    const NodeId backward = nodes.of(k, Phase::Backward);
    made[backward] = {group, 0, Phase::Backward, where};
    if (along + 1 < replica) edges.push_back({nodes.of(k + 1, Phase::Backward), backward});
    edges.push_back({nodes.of(k, Phase::Forward, order.forwards - 1), backward});
    if (order.weight_gradients != WeightGradients::Separate) continue;
    const NodeId weight = nodes.of(k, Phase::WeightGradient);
    made[weight] = {group, 0, Phase::WeightGradient, where};
    edges.push_back({backward, weight});
  }
  return {static_cast<int>(order.devices.size()), std::move(made), edges};
}

}  // namespace plansearch
