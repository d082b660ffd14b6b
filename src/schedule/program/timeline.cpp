// SPDX-License-Identifier: Apache-2.0
// Computes:   timelines of simulated programs.
// Source:     definitions.
// Assumes:    transfers take at least as long as the table says; queues may delay them further.
// Units:      ticks.
// Checked by: tests/unit/schedule/timeline_test.cpp
#include "schedule/program/timeline.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace plansearch {

Ticks Timeline::makespan() const {
  Ticks last = 0;
  for (const TimelineEntry& entry : entries) last = std::max(last, entry.end);
  return last;
}

Timeline make_timeline(const Program& program, const TaskGraph& graph,
                       const TaskSimulator& simulated) {
  Timeline timeline{program.devices, {}};
  for (const Queue& queue : program.queues) {
    for (const InstructionId id : queue.order) {
      const Instruction& instruction = program.instructions[id];
      if (instruction.opcode != Opcode::Run) continue;
      const InstructionKey& key = instruction.key;
      const TaskId task = graph.task_of[id];
      timeline.entries.push_back({queue.device,
                                  {key.chunk, key.micro_batch, key.phase, false, key.pass},
                                  simulated.start(task),
                                  simulated.end(task)});
    }
  }
  std::stable_sort(timeline.entries.begin(), timeline.entries.end(),
                   [](const TimelineEntry& a, const TimelineEntry& b) {
                     return std::tie(a.device, a.start, a.end) < std::tie(b.device, b.start, b.end);
                   });
  return timeline;
}

std::variant<Timeline, ProgramFault> simulate_order(const ComputeOrder& order,
                                                    const PipelineTimes& times,
                                                    const LoweringOptions& options) {
  const Program program = lower(order, options);
  const auto built = build_task_graph(program);
  if (const auto* fault = std::get_if<ProgramFault>(&built)) return *fault;
  const auto& graph = std::get<TaskGraph>(built);
  TaskSimulator simulator;
  simulator.run(program, graph, duration_table(times, order.weight_gradients));
  return make_timeline(program, graph, simulator);
}

}  // namespace plansearch
