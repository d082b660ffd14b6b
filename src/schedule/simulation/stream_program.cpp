// SPDX-License-Identifier: Apache-2.0
// Computes: when instructions on the streams of one device run, copy after copy.
// Source: streams are queues; rates of what runs at once (plansearch/concurrency.hpp) are constant
//         between two events, and instructions of one activity share its rate evenly.
// Assumes: the other devices of a message do the same at the same time.
// Units: seconds.
// Checked by: tests/unit/schedule/stream_program_test.cpp (timelines drawn by hand)
#include "schedule/simulation/stream_program.hpp"

#include <algorithm>
#include <bitset>
#include <limits>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// An instruction is over when its rest is this share of the step that was just taken.
constexpr double kRounding = 1e-12;

double left_after(double left, double elapsed) {
  return left <= elapsed * (1.0 + kRounding) ? 0.0 : left - elapsed;
}

/// Whether every stream is idle between two copies, so that one is like all others: what runs
/// beside stream 0 begins after something of its own copy there, and something there waits for the
/// last of it.
bool is_closed(const StreamProgram& program) {
  constexpr std::size_t kMostStreams = 16;
  if (program.streams > static_cast<int>(kMostStreams)) return false;
  std::array<std::size_t, kMostStreams> last{};  ///< by stream: its instruction
  std::bitset<kMostStreams> begun;
  std::bitset<kMostStreams> awaited;  ///< its last instruction
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const StreamInstruction& instruction = program.instructions[i];
    bool after_first = instruction.stream == 0;
    for (const StreamDependency& d : instruction.after) {
      if (d.copies_back != 0 || d.index >= i) return false;
      const std::size_t stream = program.instructions[d.index].stream;
      after_first |= stream == 0;
      if (instruction.stream == 0 && last[stream] == d.index) awaited.set(stream);
    }
    if (!after_first && !begun.test(instruction.stream)) return false;
    begun.set(instruction.stream);
    last[instruction.stream] = i;
    awaited.reset(instruction.stream);
  }
  begun.reset(0);
  awaited.reset(0);
  return awaited == begun;
}

/// Whether nothing ever runs beside anything: every message is waited for by what comes next.
bool is_serial(const StreamProgram& program) {
  const auto waits_for = [&](std::size_t waiting, std::size_t awaited) {
    const auto& after = program.instructions[waiting].after;
    return std::any_of(after.begin(), after.end(), [&](const StreamDependency& d) {
      return d.index == awaited && d.copies_back == 0;
    });
  };
  const std::size_t count = program.instructions.size();
  if (count == 0 || program.instructions.front().stream != 0) return false;
  for (std::size_t i = 1; i < count; ++i) {
    const bool message = program.instructions[i].stream != 0;
    const bool chained = !message && program.instructions[i - 1].stream == 0;
    if (!chained && !waits_for(i, i - 1)) return false;
    if (message && i + 1 == count) return false;
  }
  return true;
}

/// Instructions one after the other.
void run_serially(const StreamProgram& program, StreamRun& result) {
  result.length = 0.0;
  result.exposed.assign(program.instructions.size(), 0.0);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const StreamInstruction& instruction = program.instructions[i];
    const double time = instruction.latency + instruction.work;
    result.length += time;
    if (instruction.stream != 0) result.exposed[i] = time;
  }
}

void difference(const StreamRun& whole, const StreamRun& part, double copies, StreamRun& result) {
  result.length = whole.length - copies * part.length;
  result.exposed.resize(whole.exposed.size());
  for (std::size_t i = 0; i < whole.exposed.size(); ++i) {
    result.exposed[i] = whole.exposed[i] - copies * part.exposed[i];
  }
}

}  // namespace

void StreamSimulator::load(const StreamProgram& program, int copies) {
  program_ = &program;
  copies_ = copies;
  const auto streams = static_cast<std::size_t>(program.streams);
  streams_.assign(streams, Stream{});
  if (queues_.size() < streams) queues_.resize(streams);
  for (auto& queue : queues_) queue.clear();
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    queues_[program.instructions[i].stream].push_back(i);
  }
  ended_.assign(program.instructions.size(), 0);
}

const StreamDependency* StreamSimulator::missing(const StreamInstruction& instruction,
                                                 int copy) const {
  const auto open = [&](const StreamDependency& d) {
    return ended_[d.index] <= copy - static_cast<int>(d.copies_back);
  };
  const auto found = std::find_if(instruction.after.begin(), instruction.after.end(), open);
  return found == instruction.after.end() ? nullptr : found;
}

/// Starts what can start. True: something that takes no time has ended, so look again.
bool StreamSimulator::start_ready(double now) {
  bool again = false;
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    Stream& stream = streams_[s];
    const auto& queue = queues_[s];
    while (!stream.running && stream.copy < copies_ && !queue.empty()) {
      const std::size_t index = queue[stream.next];
      const StreamInstruction& instruction = program_->instructions[index];
      if (missing(instruction, stream.copy) != nullptr) break;
      stream.instruction = index;
      stream.activity = instruction.activity;
      stream.latency = instruction.latency;
      stream.work = instruction.work;
      stream.start = now;
      stream.running = stream.latency > 0.0 || stream.work > 0.0;
      if (stream.running) break;
      ++ended_[index];
      again = true;
      if (++stream.next == queue.size()) {
        stream.next = 0;
        ++stream.copy;
      }
    }
  }
  return again;
}

/// Sets the rates of all streams; returns how long until the next event.
double StreamSimulator::set_rates() {
  ActivityMask active = 0;
  std::array<int, kActivityCount> sharing{};
  for (const Stream& stream : streams_) {
    if (!stream.moving()) continue;
    active |= bit(stream.activity);
    ++sharing[static_cast<std::size_t>(stream.activity)];
  }
  double next = std::numeric_limits<double>::infinity();
  for (Stream& stream : streams_) {
    if (!stream.running) continue;
    if (!stream.moving()) {
      next = std::min(next, stream.latency);
      continue;
    }
    stream.rate =
        rates_->rate(active, stream.activity) / sharing[static_cast<std::size_t>(stream.activity)];
    next = std::min(next, stream.work / stream.rate);
  }
  return next;
}

/// An instruction that runs alone keeps its own speed until it ends.
double StreamSimulator::run_alone(Stream& stream) {
  stream.work += stream.latency;
  stream.latency = 0.0;
  stream.rate = 1.0;
  return stream.work;
}

/// Whom the time of stream 0 until the next event is owed to.
void StreamSimulator::book(double elapsed, StreamRun& result) const {
  const Stream& first = streams_.front();
  double owed = elapsed;
  if (first.running) {
    owed = first.moving() ? elapsed * (1.0 - first.rate) : 0.0;
  } else if (first.copy < copies_ && !queues_.front().empty()) {
    const auto& instruction = program_->instructions[queues_.front()[first.next]];
    result.exposed[missing(instruction, first.copy)->index] += owed;
    return;
  }
  if (owed <= 0.0) return;
  const auto others = std::count_if(streams_.begin() + 1, streams_.end(), [&](const Stream& s) {
    return first.running ? s.moving() : s.running;
  });
  for (std::size_t s = 1; s < streams_.size(); ++s) {
    const Stream& other = streams_[s];
    if (first.running ? !other.moving() : !other.running) continue;
    result.exposed[other.instruction] += owed / static_cast<double>(others);
  }
}

void StreamSimulator::advance(double elapsed, double now, std::vector<StreamSlice>* slices) {
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    Stream& stream = streams_[s];
    if (!stream.running) continue;
    if (stream.latency > 0.0) {
      stream.latency = left_after(stream.latency, elapsed);
    } else {
      stream.work = left_after(stream.work, elapsed * stream.rate);
    }
    if (stream.latency > 0.0 || stream.work > 0.0) continue;
    stream.running = false;
    if (slices != nullptr) {
      slices->push_back({stream.copy, stream.instruction, stream.start, now});
    }
    ++ended_[stream.instruction];
    if (++stream.next == queues_[s].size()) {
      stream.next = 0;
      ++stream.copy;
    }
  }
}

void StreamSimulator::run(const StreamProgram& program, int copies, StreamRun& result,
                          std::vector<StreamSlice>* slices) {
  load(program, copies);
  result.length = 0.0;
  result.exposed.assign(program.instructions.size(), 0.0);
  while (true) {
    while (start_ready(result.length)) {
    }
    Stream* lone = nullptr;
    int running = 0;
    for (Stream& stream : streams_) {
      if (!stream.running) continue;
      lone = &stream;
      ++running;
    }
    if (running == 0) break;
    const double elapsed = running == 1 ? run_alone(*lone) : set_rates();
    book(elapsed, result);
    result.length += elapsed;
    advance(elapsed, result.length, slices);
  }
  for (const int ended : ended_) PLANSEARCH_CHECK(ended == copies);
}

void StreamSimulator::steady(const StreamProgram& program, SteadyRun& result) {
  if (is_closed(program)) {
    if (is_serial(program)) {
      run_serially(program, result.steady);
    } else {
      run(program, 1, result.steady);
    }
    result.edges.length = 0.0;
    result.edges.exposed.assign(program.instructions.size(), 0.0);
    return;
  }
  thread_local StreamRun three;
  run(program, 2, result.edges);
  run(program, 3, three);
  difference(three, result.edges, 1.0, result.steady);
  StreamRun edges;
  difference(result.edges, result.steady, 2.0, edges);
  result.edges = std::move(edges);
}

}  // namespace plansearch
