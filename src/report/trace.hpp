// SPDX-License-Identifier: Apache-2.0
// A step in Chrome's trace event format, which Perfetto reads: a process per stage, a thread per
// stream, memory as counters, messages as flow arrows. Times are exact to the picosecond.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "report/trace_events.hpp"

namespace plansearch {

/// Micro-batches that a trace shows beyond those of its program, of one replica of the network.
struct MoreMicroBatches {
  int count = 0;
  int step = 1;    ///< after which the order repeats
  int enough = 1;  ///< that must be seen to repeat
  int stages = 1;  ///< virtual stages of a replica
};

class Trace {
 public:
  /// References the program. A tick is 1 / `ticks_per_microsecond` microseconds.
  Trace(const SimulatedProgram& simulated, double ticks_per_microsecond)
      : simulated_(simulated), scale_(ticks_per_microsecond) {}
  /// Of a plan: with ranks, all of its memory, and its blocks.
  explicit Trace(const PricedProgram& program);

  /// False, and no more are shown, where the program does not go on with one period for long
  /// enough.
  [[nodiscard]] bool extend(const MoreMicroBatches& more);

  [[nodiscard]] std::int64_t events() const;
  /// Piece by piece.
  void write(const std::function<void(std::string_view)>& append) const;

 private:
  [[nodiscard]] Ticks end() const { return simulated_.makespan() + times_ * period_.time; }
  /// Calls visit with every event, in the order of the file.
  template <typename Visit>
  void each_event(const Visit& visit) const;

  const SimulatedProgram& simulated_;
  double scale_;
  std::span<const ProgramDevice> devices_{};
  std::span<const BlockTimeline> blocks_{};
  MoreMicroBatches more_;
  TracePeriod period_;
  int times_ = 0;                    ///< that a period is shown again
  std::vector<TraceBlock> repeats_;  ///< by track; empty: none is
};

}  // namespace plansearch
