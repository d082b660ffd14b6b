// SPDX-License-Identifier: Apache-2.0
// A step in Chrome's trace event format, which Perfetto reads: a process per stage, a thread per
// stream, memory as counters, messages as flow arrows. Times are exact to the picosecond.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "evaluate/step/priced_program.hpp"

namespace plansearch {

/// The thread of a device's first channel; of the others, those behind it.
inline constexpr int kFirstChannelThread = 100;

/// One line of a trace.
struct TraceEvent {
  enum class Kind : std::uint8_t { ThreadName, Slice, ArrowStart, ArrowEnd, Memory };
  Kind kind = Kind::Slice;
  int device = 0;
  int thread = 0;
  std::string_view word;                  ///< before the name of the piece, or all there is
  std::optional<InstructionKey> piece{};  ///< that the name says
  std::string_view category{};
  Ticks start = 0;
  Ticks length = 0;
  MessageId message = 0;
  Bytes held{};
};

/// Shows the events of every queue, of the messages of every device and of its memory, one track
/// after the other. `end`: of the step.
void visit_tracks(const SimulatedProgram& simulated, std::span<const ProgramDevice> devices,
                  Ticks end, const std::function<void(std::span<const TraceEvent>)>& visit);

/// So many micro-batches later everything is there again, so much later.
struct TracePeriod {
  int micro_batches = 0;
  Ticks time = 0;
};
/// Events that can be shown again and again: those behind them follow a period later.
struct TraceBlock {
  std::size_t end = 0;         ///< of the events, behind the last period
  std::size_t length = 0;      ///< of a period; 0: all before `end` comes before what is repeated
  std::uint32_t messages = 0;  ///< of a period
  int periods = 0;             ///< seen
};
/// Nothing where the track goes on around `middle` without that period.
[[nodiscard]] std::optional<TraceBlock> block_of(std::span<const TraceEvent> track,
                                                 const TracePeriod& period, Ticks middle);
/// The period in the middle of a track: a multiple of `step` micro-batches, seen for `enough`.
[[nodiscard]] std::optional<TracePeriod> period_of(std::span<const TraceEvent> track, int step,
                                                   int enough);
/// An event `times` periods later.
[[nodiscard]] TraceEvent later(const TraceEvent& event, const TracePeriod& period,
                               std::uint32_t messages, int times);

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
  /// The trace of a plan: with ranks, all of its memory, and its blocks.
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
