// SPDX-License-Identifier: Apache-2.0
// When everything ran: as values, as a grid of text, and checked.
//
//   stage 0 | F0 F1 .  .  B0 B0 F2 B1 B1 F3 B2 B2 .  B3 B3
//   stage 1 | .  F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 .  .
//
// One row per device, one column per slot of time, '.' where nothing is computed. F forward, B
// backward, W weight gradient, then the micro-batch; with several chunks a letter for the chunk:
// "F3b" is chunk 1. A forward pass after the first of its micro-batch has a tick for each before
// it: "F3''" is the third. Spaces may be added anywhere between cells.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "schedule/order/compute_order.hpp"
#include "schedule/program/lowering.hpp"
#include "schedule/simulation/task_graph.hpp"

namespace plansearch {

struct TimelineEntry {
  int device = 0;
  ComputeStep step;
  Ticks start = 0;
  Ticks end = 0;
  bool operator==(const TimelineEntry&) const = default;
};

/// Computing only, by device and then by start.
struct Timeline {
  int devices = 0;
  std::vector<TimelineEntry> entries;
  bool operator==(const Timeline&) const = default;

  [[nodiscard]] Ticks makespan() const;
};

/// The timeline of the Run tasks of a simulated program.
[[nodiscard]] Timeline make_timeline(const Program& program, const TaskGraph& graph,
                                     const TaskSimulator& simulated);

/// Lowers, checks and simulates an order; a fault when it cannot run.
[[nodiscard]] std::variant<Timeline, ProgramFault> simulate_order(
    const ComputeOrder& order, const PipelineTimes& times, const LoweringOptions& options = {});

using GridRow = std::vector<std::optional<ComputeStep>>;
struct Grid {
  std::vector<GridRow> rows;
  bool operator==(const Grid&) const = default;
};

/// The longest slot that all starts and ends are multiples of.
[[nodiscard]] Ticks common_slot(const Timeline& timeline);
/// Requires that starts and ends are multiples of `slot`.
[[nodiscard]] Grid make_grid(const Timeline& timeline, Ticks slot);
[[nodiscard]] std::string to_text(const Grid& grid);

}  // namespace plansearch
