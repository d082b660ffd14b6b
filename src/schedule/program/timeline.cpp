// SPDX-License-Identifier: Apache-2.0
// Computes:   timelines of simulated programs, also drawn as text.
// Source:     definitions in timeline.hpp.
// Assumes:    transfers take at least as long as the table says; queues may delay them further; at
//             most 26 chunks per device in a drawing.
// Units:      ticks, slots.
// Checked by: tests/unit/schedule/timeline_test.cpp
#include "schedule/program/timeline.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "plansearch/error.hpp"

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

namespace {

std::string cell_text(const std::optional<ComputeStep>& cell, bool several_chunks) {
  if (!cell) return ".";
  std::string text = step_name(cell->phase, cell->micro_batch);
  if (several_chunks) text += static_cast<char>('a' + cell->chunk);
  text.append(static_cast<std::size_t>(cell->pass), '\'');
  return text;
}

}  // namespace

Ticks common_slot(const Timeline& timeline) {
  Ticks slot = 0;
  for (const TimelineEntry& entry : timeline.entries) {
    slot = std::gcd(slot, std::gcd(entry.start, entry.end));
  }
  return std::max<Ticks>(slot, 1);
}

Grid make_grid(const Timeline& timeline, Ticks slot) {
  const auto columns = static_cast<std::size_t>(timeline.makespan() / slot);
  Grid grid;
  grid.rows.assign(static_cast<std::size_t>(timeline.devices), GridRow(columns));
  for (const TimelineEntry& entry : timeline.entries) {
    PLANSEARCH_CHECK(entry.start % slot == 0 && entry.end % slot == 0);
    GridRow& row = grid.rows[static_cast<std::size_t>(entry.device)];
    for (Ticks i = entry.start / slot; i < entry.end / slot; ++i) {
      row[static_cast<std::size_t>(i)] = entry.step;
    }
  }
  return grid;
}

std::string to_text(const Grid& grid) {
  bool several_chunks = false;
  for (const GridRow& row : grid.rows) {
    for (const auto& cell : row) several_chunks = several_chunks || (cell && cell->chunk > 0);
  }
  std::size_t width = 1;
  for (const GridRow& row : grid.rows) {
    for (const auto& cell : row) width = std::max(width, cell_text(cell, several_chunks).size());
  }
  const std::size_t digits = std::to_string(std::max<std::size_t>(grid.rows.size(), 1) - 1).size();
  std::string text;
  for (std::size_t r = 0; r < grid.rows.size(); ++r) {
    const std::string number = std::to_string(r);
    std::string line = "stage " + number + std::string(digits - number.size(), ' ') + " |";
    for (const auto& cell : grid.rows[r]) {
      const std::string word = cell_text(cell, several_chunks);
      line += " " + word + std::string(width - word.size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace plansearch
