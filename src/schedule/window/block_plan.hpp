// SPDX-License-Identifier: Apache-2.0
// Blocks of a plan on any devices: what each takes, where, and what comes before what. A block
// may lie on several devices, devices may hold any blocks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "schedule/simulation/pipeline.hpp"
#include "schedule/templates/task_template.hpp"

namespace plansearch {

/// `first` of micro-batch m ends, and `delay` passes, before `second` of micro-batch m + later
/// begins, for every m.
struct BeforeRule {
  NodeId first = 0;
  NodeId second = 0;
  int later = 0;
  Ticks delay = 0;  ///< time of a message between them
  bool operator==(const BeforeRule&) const = default;
};

/// "f0 before b1", "b0 before f0(m+2)"
[[nodiscard]] std::string rule_text(const std::string& first, const std::string& second, int later);

struct PlanBlock {
  std::string name;
  Ticks time = 0;  ///< on each of its devices, above zero
  /// Kept on each of its devices from its start on (above zero), or given back at its end.
  int memory = 0;
  bool operator==(const PlanBlock&) const = default;
};

/// Micro-batches pass every block in sequence.
struct BlockPlan {
  std::string name;
  TaskTemplate nodes;             ///< needs within a micro-batch
  std::vector<PlanBlock> blocks;  ///< by node
  std::vector<BeforeRule> rules;  ///< needs within a micro-batch, and between several
  /// All nodes, each behind those it needs of its own and of later micro-batches. Nodes of rules
  /// that contradict each other are missing.
  std::vector<NodeId> sequence;

  [[nodiscard]] std::size_t devices() const { return static_cast<std::size_t>(nodes.devices()); }
};

/// Every block once; needs within a micro-batch are the edges of the template.
[[nodiscard]] BlockPlan make_block_plan(std::string name, int devices,
                                        std::vector<PlanBlock> blocks,
                                        std::vector<std::vector<int>> devices_of,
                                        std::vector<BeforeRule> rules);

/// Rules that contradict each other, as indices: with all micro-batches in sequence they ask a
/// block to end before it begins. The fewest such; empty: none.
[[nodiscard]] std::vector<std::size_t> contradiction(const BlockPlan& plan);

/// Work of every device for one micro-batch.
[[nodiscard]] std::vector<Ticks> work_of_devices(const BlockPlan& plan);

/// No order of so many micro-batches ends earlier: work of a device between what must come before
/// its first block and behind its last, and one micro-batch by itself.
[[nodiscard]] Ticks least_makespan(const BlockPlan& plan, int micro_batches);

/// When every block of every micro-batch begins: starts[node][micro-batch].
using BlockStarts = std::vector<std::vector<Ticks>>;
/// Every block as early as it can be where all devices run their blocks in the sequence of the
/// starts in a window that repeats.
[[nodiscard]] BlockStarts unrolled(const BlockPlan& plan, const std::vector<Ticks>& window,
                                   Ticks period, int micro_batches);

struct BlockTurn {
  NodeId node = 0;
  int micro_batch = 0;
  Ticks start = 0;
};

/// The turns of every device, by start.
[[nodiscard]] std::vector<std::vector<BlockTurn>> runs_by_device(const BlockPlan& plan,
                                                                 const BlockStarts& starts);
/// First start, last end and work of every device.
[[nodiscard]] std::vector<DeviceUse> uses_of(const BlockPlan& plan, const BlockStarts& starts);
[[nodiscard]] Ticks makespan_of(const BlockPlan& plan, const BlockStarts& starts);
/// Most that a device keeps at one time.
[[nodiscard]] std::vector<int> peaks_of(const BlockPlan& plan, const BlockStarts& starts);

/// Faults of starts that do not make a schedule: rules broken, two blocks at the same time on one device. In words,
/// the earliest of each; empty: nothing.
[[nodiscard]] std::vector<std::string> start_faults(const BlockPlan& plan,
                                                    const BlockStarts& starts);

}  // namespace plansearch
