// SPDX-License-Identifier: Apache-2.0
// What a trace of a program shows, track by track, and which part of it repeats.
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
/// Of the middle of a track, after a multiple of `step` micro-batches, that goes on for `enough`.
[[nodiscard]] std::optional<TracePeriod> period_of(std::span<const TraceEvent> track, int step,
                                                   int enough);
/// An event `times` periods later.
[[nodiscard]] TraceEvent later(const TraceEvent& event, const TracePeriod& period,
                               std::uint32_t messages, int times);

}  // namespace plansearch
