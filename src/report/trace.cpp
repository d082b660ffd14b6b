// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/plan_timeline.hpp"

namespace plansearch {
namespace {

constexpr std::string_view kPhases = "FBW";

std::string name_of(const InstructionKey& key) {
  return fmt::format("{}{}", kPhases[static_cast<std::size_t>(key.phase)], key.micro_batch);
}

/// Threads of a process: computing, other queues that take time, and one per channel out.
constexpr int kComputeThread = 0;
constexpr int kFirstQueueThread = 1;
constexpr int kFirstChannelThread = 100;

class TraceWriter {
 public:
  TraceWriter(const SimulatedProgram& simulated, double ticks_per_microsecond)
      : simulated_(simulated), program_(simulated.program), scale_(ticks_per_microsecond) {}

  std::string text(const std::vector<ProgramDevice>& devices,
                   const std::vector<BlockTimeline>& blocks = {}) {
    write("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    name_tracks(devices);
    for (std::size_t q = 0; q < program_.queues.size(); ++q) add_queue(q);
    for (MessageId id = 0; id < program_.messages.size(); ++id) add_message(id);
    add_memory(devices);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      add_block(program_.devices + static_cast<int>(b), blocks[b]);
    }
    write("\n]}}\n");
    return fmt::to_string(text_);
  }

 private:
  template <typename... Values>
  void write(fmt::format_string<Values...> pattern, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), pattern, std::forward<Values>(values)...);
  }
  /// An event of its own line; the first has no comma before it.
  template <typename... Values>
  void event(fmt::format_string<Values...> pattern, Values&&... values) {
    write("{}", first_ ? "\n" : ",\n");
    first_ = false;
    write(pattern, std::forward<Values>(values)...);
  }
  [[nodiscard]] double at(Ticks ticks) const { return static_cast<double>(ticks) / scale_; }

  void name_tracks(const std::vector<ProgramDevice>& devices) {
    for (int d = 0; d < program_.devices; ++d) {
      std::string name = fmt::format("stage {}", d);
      if (!devices.empty()) {
        const ProgramDevice& device = devices[static_cast<std::size_t>(d)];
        name +=
            fmt::format(" (ranks {}-{})", device.first_rank, device.first_rank + device.ranks - 1);
      }
      event(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"{}"}}}})", d, name);
      name_thread(d, kComputeThread, "compute");
    }
    for (std::size_t c = 0; c < program_.channels.size(); ++c) {
      const Channel& channel = program_.channels[c];
      name_thread(channel.source, kFirstChannelThread + static_cast<int>(c),
                  fmt::format("to stage {}", channel.destination));
    }
  }
  void name_thread(int device, int thread, const std::string& name) {
    event(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})", device,
          thread, name);
  }

  void slice(int device, int thread, const std::string& name, const char* category, Ticks start,
             Ticks end) {
    event(R"({{"ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{:.6f},"dur":{:.6f}}})", name,
          category, device, thread, at(start), at(end - start));
  }

  /// Everything that takes time, and the waits in between.
  void add_queue(std::size_t index) {
    const Queue& queue = program_.queues[index];
    if (queue.stream == StreamKind::Send || queue.stream == StreamKind::Receive) return;
    const bool compute = queue.stream == StreamKind::Compute;
    const int thread = compute ? kComputeThread : kFirstQueueThread + queue.lane;
    if (!compute) name_thread(queue.device, thread, "reductions");
    if (compute) slice(queue.device, thread, "step", "step", 0, simulated_.makespan());
    Ticks before = 0;
    for (const InstructionId id : queue.order) {
      const Instruction& instruction = program_.instructions[id];
      if (is_about_buffer(instruction.opcode)) continue;
      const TaskId task = simulated_.graph.task_of[id];
      const Ticks end = simulated_.times.end(task);
      const bool waits = is_about_message(instruction.opcode);
      const Ticks start = waits ? before : simulated_.times.start(task);
      if (end > start) {
        slice(queue.device, thread, word_of(instruction), waits ? "wait" : "work", start, end);
      }
      before = end;
    }
  }
  static std::string word_of(const Instruction& instruction) {
    const std::string name = name_of(instruction.key);
    switch (instruction.opcode) {
      case Opcode::Run:
        return name;
      case Opcode::Send:
      case Opcode::PostSend:
      case Opcode::WaitSent:
        return "send " + name;
      case Opcode::Receive:
      case Opcode::PostReceive:
      case Opcode::WaitArrived:
        return "wait for " + name;
      case Opcode::Collective:
        return "reduction";
      case Opcode::Apply:
        return "optimizer";
      case Opcode::Allocate:
      case Opcode::Free:
        break;
    }
    return "memory";
  }

  /// The way of a message, and arrows from what makes it to what reads it.
  void add_message(MessageId id) {
    const Message& message = program_.messages[id];
    const TaskId task = simulated_.graph.transfer_of[id];
    if (task == kNoId) return;
    const Channel& channel = program_.channels[message.channel];
    const int thread = kFirstChannelThread + static_cast<int>(message.channel);
    const Ticks start = simulated_.times.start(task);
    const Ticks end = simulated_.times.end(task);
    const bool forward = message.tensor == TensorKind::Activation;
    if (end > start) {
      slice(channel.source, thread, name_of(message.key), forward ? "activation" : "gradient",
            start, end);
    }
    const auto step = [&](char kind, InstructionId run, const char* binding) {
      const TaskId bound = simulated_.graph.task_of[run];
      const Ticks middle = simulated_.times.start(bound) +
                           (simulated_.times.end(bound) - simulated_.times.start(bound)) / 2;
      const int device = kind == 's' ? channel.source : channel.destination;
      event(
          R"({{"ph":"{}","name":"message","cat":"flow","id":{},"pid":{},"tid":{},"ts":{:.6f}{}}})",
          kind, id, device, kComputeThread, at(middle), binding);
    };
    step('s', message.producer, "");
    step('f', message.consumer, R"(,"bp":"e")");
  }

  void add_memory(const std::vector<ProgramDevice>& devices) {
    const auto held = held_over_time(simulated_);
    for (std::size_t d = 0; d < held.size(); ++d) {
      const Bytes always = devices.empty() ? Bytes(0) : devices[d].always;
      for (const HeldBytes& change : held[d]) {
        event(R"({{"ph":"C","name":"memory","pid":{},"ts":{:.6f},"args":{{"bytes":{:.0f}}}}})", d,
              at(change.at), (always + change.bytes).value());
      }
    }
  }

  /// Names of blocks and tensors come from files.
  static std::string quoted(const std::string& name) {
    return nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  /// Two copies of a block as a process of its own, from time 0.
  void add_block(int process, const BlockTimeline& block) {
    event(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", process,
          quoted("two of " + block.name));
    for (std::size_t s = 0; s < block.streams.size(); ++s) {
      name_thread(process, static_cast<int>(s), block.streams[s]);
    }
    const auto microseconds = [](Seconds time) { return 1e6 * time.value(); };
    for (const BlockTimeline::Slice& slice : block.slices) {
      event(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.6f},"dur":{:.6f}}})",
            quoted(slice.what), slice.message ? "message" : "kernels", process, slice.stream,
            microseconds(slice.start), microseconds(slice.end - slice.start));
    }
  }

  const SimulatedProgram& simulated_;
  const Program& program_;
  double scale_;
  fmt::memory_buffer text_;
  bool first_ = true;
};

constexpr double kTicksPerMicrosecond = kTicksPerSecond / 1e6;

}  // namespace

std::string plan_trace(const PricedProgram& program) {
  return TraceWriter(program, kTicksPerMicrosecond).text(program.devices, program.blocks);
}

std::string schedule_trace(const SimulatedProgram& program, double ticks_per_unit) {
  return TraceWriter(program, ticks_per_unit).text({});
}

}  // namespace plansearch
