// SPDX-License-Identifier: Apache-2.0
#include "report/trace.hpp"

#include <algorithm>

#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

using Kind = TraceEvent::Kind;

/// Threads of a process: computing, other queues that take time, and one per channel out.
constexpr int kComputeThread = 0;
constexpr int kFirstQueueThread = 1;

std::string_view word_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::Send:
    case Opcode::PostSend:
    case Opcode::WaitSent:
      return "send ";
    case Opcode::Receive:
    case Opcode::PostReceive:
    case Opcode::WaitArrived:
      return "wait for ";
    case Opcode::Collective:
      return "reduction";
    case Opcode::Apply:
      return "optimizer";
    case Opcode::Run:
    case Opcode::Allocate:
    case Opcode::Free:
      break;
  }
  return "";
}

/// Everything that takes time, and the waits in between.
void add_queue(const SimulatedProgram& simulated, const Queue& queue, Ticks end,
               std::vector<TraceEvent>& events) {
  if (queue.stream == StreamKind::Send || queue.stream == StreamKind::Receive) return;
  const int device = queue.device;
  const bool compute = queue.stream == StreamKind::Compute;
  const int thread = compute ? kComputeThread : kFirstQueueThread + queue.lane;
  if (compute) {
    events.push_back({Kind::Slice, device, thread, "step", {}, "step", 0, end});
  } else {
    events.push_back({Kind::ThreadName, device, thread, "reductions"});
  }
  Ticks before = 0;
  for (const InstructionId id : queue.order) {
    const Instruction& instruction = simulated.program.instructions[id];
    if (is_about_buffer(instruction.opcode)) continue;
    const TaskId task = simulated.graph.task_of[id];
    const Ticks last = simulated.times.end(task);
    const bool waits = is_about_message(instruction.opcode);
    const Ticks start = waits ? before : simulated.times.start(task);
    before = last;
    if (last <= start) continue;
    const bool named = waits || instruction.opcode == Opcode::Run;
    events.push_back({Kind::Slice, device, thread, word_of(instruction.opcode),
                      named ? std::optional(instruction.key) : std::nullopt,
                      waits ? "wait" : "work", start, last - start});
  }
}

/// The way of a message, and arrows from what makes it to what reads it.
void add_message(const SimulatedProgram& simulated, MessageId id, std::vector<TraceEvent>& events) {
  const Message& message = simulated.program.messages[id];
  const TaskId task = simulated.graph.transfer_of[id];
  if (task == kNoId) return;
  const Channel& channel = simulated.program.channels[message.channel];
  const int thread = kFirstChannelThread + static_cast<int>(message.channel);
  const TaskSimulator& times = simulated.times;
  const bool forward = message.tensor == TensorKind::Activation;
  if (times.end(task) > times.start(task)) {
    events.push_back({Kind::Slice, channel.source, thread, "", message.key,
                      forward ? "activation" : "gradient", times.start(task),
                      times.end(task) - times.start(task)});
  }
  const auto arrow = [&](Kind kind, int device, InstructionId run) {
    const TaskId bound = simulated.graph.task_of[run];
    const Ticks middle = times.start(bound) + (times.end(bound) - times.start(bound)) / 2;
    events.push_back({kind, device, kComputeThread, "message", {}, "flow", middle, 0, id});
  };
  arrow(Kind::ArrowStart, channel.source, message.producer);
  arrow(Kind::ArrowEnd, channel.destination, message.consumer);
}

/// An event at the same time later, of the same piece that much further.
bool follows(const TraceEvent& a, const TraceEvent& b, const TracePeriod& period) {
  if (a.kind != b.kind || a.device != b.device || a.thread != b.thread || a.word != b.word ||
      a.category != b.category || a.length != b.length || a.held != b.held ||
      a.start + period.time != b.start || a.piece.has_value() != b.piece.has_value()) {
    return false;
  }
  if (!a.piece) return true;
  InstructionKey piece = *a.piece;
  piece.micro_batch += period.micro_batches;
  return piece == *b.piece;
}

/// How many events a period has around one of them; 0: it has none.
std::size_t length_of(std::span<const TraceEvent> track, std::size_t at,
                      const TracePeriod& period) {
  for (std::size_t n = 1; at + 2 * n <= track.size(); ++n) {
    const auto again = [&](const TraceEvent& a, const TraceEvent& b) {
      return follows(a, b, period);
    };
    const auto here = track.subspan(at, n);
    if (std::equal(here.begin(), here.end(), track.subspan(at + n).begin(), again)) return n;
  }
  return 0;
}

}  // namespace

void visit_tracks(const SimulatedProgram& simulated, std::span<const ProgramDevice> devices,
                  Ticks end, const std::function<void(std::span<const TraceEvent>)>& visit) {
  std::vector<TraceEvent> events;
  const auto show = [&] {
    if (!events.empty()) visit(events);
    events.clear();
  };
  for (const Queue& queue : simulated.program.queues) {
    add_queue(simulated, queue, end, events);
    show();
  }
  // Messages have numbers in the order in which devices, one after the other, name them.
  const auto& messages = simulated.program.messages;
  const auto named_by = [&](MessageId id) {
    const Channel& channel = simulated.program.channels[messages[id].channel];
    return std::min(channel.source, channel.destination);
  };
  OccasionalStop stop(1024);
  for (MessageId id = 0; id < messages.size(); ++id) {
    stop.check();
    add_message(simulated, id, events);
    if (id + 1 == messages.size() || named_by(id) != named_by(id + 1)) show();
  }
  const auto held = held_over_time(simulated);
  for (std::size_t d = 0; d < held.size(); ++d) {
    const Bytes always = devices.empty() ? Bytes(0) : devices[d].always;
    for (const HeldBytes& change : held[d]) {
      events.push_back({Kind::Memory,
                        static_cast<int>(d),
                        0,
                        "memory",
                        {},
                        {},
                        change.at,
                        0,
                        0,
                        always + change.bytes});
    }
    show();
  }
}

std::optional<TraceBlock> block_of(std::span<const TraceEvent> track, const TracePeriod& period,
                                   Ticks middle) {
  const auto behind = std::ranges::find_if(track, [&](const TraceEvent& event) {
    return event.kind != Kind::ThreadName && event.category != "step" && event.start >= middle;
  });
  const auto at = static_cast<std::size_t>(behind - track.begin());
  TraceBlock block{at, 0, 0, 0};
  if (at == track.size() || (behind->kind == Kind::Slice && !behind->piece)) {
    return block;  // the end of the step
  }
  block.length = length_of(track, at, period);
  if (block.length == 0) return std::nullopt;
  std::size_t begin = at, end = at;
  while (end + block.length < track.size() &&
         follows(track[end], track[end + block.length], period)) {
    ++end;
  }
  while (begin > 0 && follows(track[begin - 1], track[begin - 1 + block.length], period)) --begin;
  block.end = end + block.length;
  block.periods = static_cast<int>((block.end - begin) / block.length);
  for (std::size_t i = block.end - block.length; i < block.end; ++i) {
    if (track[i].category == "flow") {
      block.messages = track[i].message - track[i - block.length].message;
      break;
    }
  }
  return block;
}

std::optional<TracePeriod> period_of(std::span<const TraceEvent> track, int step, int enough) {
  const std::size_t middle = track.size() / 2;
  for (std::size_t n = 1; middle + 2 * n <= track.size(); ++n) {
    const TraceEvent& here = track[middle];
    const TraceEvent& there = track[middle + n];
    if (!here.piece || !there.piece) continue;
    const TracePeriod period{there.piece->micro_batch - here.piece->micro_batch,
                             there.start - here.start};
    if (period.micro_batches < 1 || period.micro_batches % step != 0) continue;
    if (!follows(here, there, period)) continue;
    const auto block = block_of(track, period, here.start);
    if (block && block->periods * period.micro_batches >= enough) return period;
  }
  return std::nullopt;
}

TraceEvent later(const TraceEvent& event, const TracePeriod& period, std::uint32_t messages,
                 int times) {
  TraceEvent result = event;
  result.start += times * period.time;
  result.message += static_cast<std::uint32_t>(times) * messages;
  if (result.piece) result.piece->micro_batch += times * period.micro_batches;
  return result;
}

}  // namespace plansearch
