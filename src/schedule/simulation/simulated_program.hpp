// SPDX-License-Identifier: Apache-2.0
// A program and when each of its tasks ran.
#pragma once

#include <variant>
#include <vector>

#include "schedule/program/lowering.hpp"

namespace plansearch {

struct SimulatedProgram {
  Program program;
  TaskGraph graph;
  TaskSimulator times;

  [[nodiscard]] Ticks makespan() const { return times.makespan(); }
};

[[nodiscard]] std::variant<SimulatedProgram, ProgramFault> simulate_program(
    Program program, std::span<const Ticks> durations);

/// The longest time between the first start and the last end of what takes time on one device.
[[nodiscard]] Ticks span(const SimulatedProgram& simulated);

/// From `at` on a device holds this much in buffers of the program.
struct HeldBytes {
  Ticks at = 0;
  Bytes bytes;
  bool operator==(const HeldBytes&) const = default;
};
/// By device, in the order of time; what is freed and allocated at the same time is freed first.
[[nodiscard]] std::vector<std::vector<HeldBytes>> held_over_time(const SimulatedProgram& simulated);
/// The most of it, by device.
[[nodiscard]] std::vector<Bytes> peak_bytes(const SimulatedProgram& simulated);

}  // namespace plansearch
