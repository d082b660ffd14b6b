// SPDX-License-Identifier: Apache-2.0
// The work on every micro-batch and its dependencies: the part of a schedule that is the same for
// all orders.
//
// An order is, for every device, a sequence of (node, micro-batch); whether it can run, how long it
// takes and what it keeps follow from the template. Conventional pipelines are one instance
// (pipeline_template), networks that a micro-batch passes forward several times another, plans
// whose blocks lie on any devices a third (window/block_plan.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/order/compute_order.hpp"

namespace plansearch {

using NodeId = std::uint32_t;

struct TemplateNode {
  int group = 0;  ///< operator group; in pipelines the virtual stage
  int pass = 0;   ///< of several forward passes of one micro-batch
  Phase phase = Phase::Forward;
  /// Where it runs, at the same time on all of them.
  std::vector<int> devices;
  bool operator==(const TemplateNode&) const = default;
};

struct TemplateEdge {
  NodeId from = 0;  ///< makes what
  NodeId to = 0;    ///< reads
  bool operator==(const TemplateEdge&) const = default;
};

class TaskTemplate {
 public:
  /// Edges may come in any sequence; a node's inputs keep it.
  TaskTemplate(int devices, std::vector<TemplateNode> nodes, std::span<const TemplateEdge> edges);

  [[nodiscard]] int devices() const { return devices_; }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  [[nodiscard]] const TemplateNode& node(NodeId id) const { return nodes_[id]; }
  /// Inputs of a node, in the same micro-batch.
  [[nodiscard]] std::span<const NodeId> inputs(NodeId id) const {
    return std::span(inputs_).subspan(first_input_[id], first_input_[id + 1] - first_input_[id]);
  }
  /// The first of its devices; pipelines have no others.
  [[nodiscard]] int device(NodeId id) const { return nodes_[id].devices.front(); }

  /// All nodes, each behind what it needs; fewer where there is a cycle.
  [[nodiscard]] std::vector<NodeId> sequence() const;

 private:
  int devices_;
  std::vector<TemplateNode> nodes_;
  std::vector<std::uint32_t> first_input_;  ///< by node, and the end
  std::vector<NodeId> inputs_;
};

/// Numbers of the nodes of a pipeline: by virtual stage its forward passes, its backward and, where
/// that is separate, its weight gradient.
struct PipelineNodes {
  std::size_t forwards = 1;
  std::size_t of_stage = 2;

  explicit PipelineNodes(const ComputeOrder& order)
      : forwards(static_cast<std::size_t>(order.forwards)),
        of_stage(forwards + (order.weight_gradients == WeightGradients::Separate ? 2 : 1)) {}

  [[nodiscard]] NodeId of(std::size_t stage, Phase phase, int pass = 0) const {
    const std::size_t behind = phase == Phase::Forward
                                   ? static_cast<std::size_t>(pass)
                                   : forwards - 1 + static_cast<std::size_t>(phase);
    return static_cast<NodeId>(stage * of_stage + behind);
  }
  [[nodiscard]] NodeId of(std::size_t stage, const ComputeStep& step) const {
    return of(stage, step.phase, step.pass);
  }
};

/// A forward needs that of the virtual stage before; the first of a replica, from its second pass
/// on, the pass before of the last. A backward needs that of the stage behind and the last forward
/// of its own; a weight gradient its backward.
[[nodiscard]] TaskTemplate pipeline_template(const ComputeOrder& order);

/// Virtual stage by device and chunk: places of the order turned round.
[[nodiscard]] std::vector<std::size_t> stages_by_place(const ComputeOrder& order);

}  // namespace plansearch
