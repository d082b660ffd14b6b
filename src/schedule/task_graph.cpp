// SPDX-License-Identifier: Apache-2.0
// Computes:   earliest starts and ends of the tasks of a program.
// Source:     longest path in a directed acyclic graph.
// Assumes:    tasks stand after all that they wait for.
// Units:      ticks.
// Checked by: tests/unit/schedule/simulator_test.cpp, against the pipeline simulator.
#include "schedule/task_graph.hpp"

#include <algorithm>

namespace plansearch {

void TaskSimulator::run(const TaskGraph& graph, std::span<const Ticks> duration_table) {
  const std::size_t count = graph.tasks.size();
  starts_.resize(count);
  ends_.resize(count);
  makespan_ = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Ticks start = 0;
    for (std::uint32_t e = graph.first_edge[i]; e < graph.first_edge[i + 1]; ++e) {
      start = std::max(start, ends_[graph.waits_for[e]]);
    }
    starts_[i] = start;
    ends_[i] = start + duration_table[graph.duration[i]];
    makespan_ = std::max(makespan_, ends_[i]);
  }
}

}  // namespace plansearch
