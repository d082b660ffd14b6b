// SPDX-License-Identifier: Apache-2.0
// Computes:   when the tasks of a program run and what its devices hold over time.
// Source:     the Allocate and Free instructions of the program.
// Assumes:    a buffer is taken when the instruction before Allocate has ended, and given back when
//             the one before Free has.
// Units:      ticks, bytes.
// Checked by: tests/unit/schedule/simulated_program_test.cpp
#include "schedule/simulation/simulated_program.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "plansearch/stop_token.hpp"

namespace plansearch {

std::variant<SimulatedProgram, ProgramFault> simulate_program(Program program,
                                                              std::span<const Ticks> durations) {
  check_stop();
  auto built = build_task_graph(program);
  if (auto* fault = std::get_if<ProgramFault>(&built)) return std::move(*fault);
  SimulatedProgram result{std::move(program), std::get<TaskGraph>(std::move(built)), {}};
  constexpr std::int64_t kStepsOfTask = 100;
  count_work(kStepsOfTask * static_cast<std::int64_t>(result.graph.tasks.size()));
  result.times.run(result.program, result.graph, durations);
  return result;
}

Ticks span(const SimulatedProgram& simulated) {
  const Program& program = simulated.program;
  struct Use {
    Ticks from = std::numeric_limits<Ticks>::max();
    Ticks to = 0;
  };
  std::vector<Use> devices(static_cast<std::size_t>(program.devices));
  for (const Queue& queue : program.queues) {
    Use& use = devices[static_cast<std::size_t>(queue.device)];
    for (const InstructionId id : queue.order) {
      const TaskId task = simulated.graph.task_of[id];
      if (task == kNoId || simulated.times.end(task) == simulated.times.start(task)) continue;
      use.from = std::min(use.from, simulated.times.start(task));
      use.to = std::max(use.to, simulated.times.end(task));
    }
  }
  Ticks longest = 0;
  for (const Use& use : devices) longest = std::max(longest, use.to - use.from);
  return longest;
}

std::vector<std::vector<HeldBytes>> held_over_time(const SimulatedProgram& simulated) {
  const Program& program = simulated.program;
  std::vector<std::vector<HeldBytes>> changes(static_cast<std::size_t>(program.devices));
  for (const Queue& queue : program.queues) {
    for (const InstructionId id : queue.order) {
      const Instruction& instruction = program.instructions[id];
      if (!is_about_buffer(instruction.opcode)) continue;
      const Buffer& buffer = program.buffers[instruction.subject];
      const bool taken = instruction.opcode == Opcode::Allocate;
      changes[static_cast<std::size_t>(buffer.device)].push_back(
          {simulated.times.end_of(simulated.graph, id),
           taken ? buffer.bytes : Bytes(0) - buffer.bytes});
    }
  }
  for (auto& device : changes) {
    std::stable_sort(device.begin(), device.end(), [](const HeldBytes& a, const HeldBytes& b) {
      return std::tie(a.at, a.bytes) < std::tie(b.at, b.bytes);
    });
    Bytes held;
    for (HeldBytes& change : device) change.bytes = held += change.bytes;
  }
  return changes;
}

std::vector<Bytes> peak_bytes(const SimulatedProgram& simulated) {
  std::vector<Bytes> peaks;
  for (const auto& device : held_over_time(simulated)) {
    Bytes peak;
    for (const HeldBytes& held : device) peak = std::max(peak, held.bytes);
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace plansearch
