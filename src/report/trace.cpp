// SPDX-License-Identifier: Apache-2.0
#include "report/trace.hpp"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

using Kind = TraceEvent::Kind;

constexpr std::string_view kPhases = "FBW";
constexpr Ticks kTicksPerMicrosecond = 1'000'000;  // of plans

class TraceWriter {
 public:
  TraceWriter(double ticks_per_microsecond, const std::function<void(std::string_view)>& append)
      : scale_(ticks_per_microsecond), append_(append) {
    write(FMT_COMPILE("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":["));
  }
  void finish() {
    write(FMT_COMPILE("\n]}}\n"));
    flush();
  }

  void name_process(int process, std::string_view quoted_name) {
    line(FMT_COMPILE(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})"),
         process, quoted_name);
  }
  void name_thread(int process, int thread, std::string_view name) {
    line(FMT_COMPILE(
             R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})"),
         process, thread, name);
  }
  void write(const TraceEvent& event) {
    switch (event.kind) {
      case Kind::ThreadName:
        return name_thread(event.device, event.thread, event.word);
      case Kind::Slice:
        return slice(event);
      case Kind::ArrowStart:
      case Kind::ArrowEnd:
        return arrow(event);
      case Kind::Memory:
        line(FMT_COMPILE(R"({{"ph":"C","name":"memory","pid":{},"ts":)"), event.device);
        time(event.start);
        write(FMT_COMPILE(R"(,"args":{{"bytes":{:.0f}}}}})"), event.held.value());
    }
  }
  /// Two copies of a block as a process of its own, from time 0.
  void write_block(int process, const BlockTimeline& block) {
    name_process(process, quoted("two of " + block.name));
    for (std::size_t s = 0; s < block.streams.size(); ++s) {
      name_thread(process, static_cast<int>(s), block.streams[s]);
    }
    const auto microseconds = [](Seconds time) { return 1e6 * time.value(); };
    for (const BlockTimeline::Slice& slice : block.slices) {
      line(FMT_COMPILE(
               R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.6f},"dur":{:.6f}}})"),
           quoted(slice.what), slice.message ? "message" : "kernels", process, slice.stream,
           microseconds(slice.start), microseconds(slice.end - slice.start));
    }
  }

 private:
  template <typename Pattern, typename... Values>
  void write(const Pattern& pattern, const Values&... values) {
    fmt::format_to(std::back_inserter(text_), pattern, values...);
  }
  /// An event on a line of its own; the first has no comma before it.
  template <typename Pattern, typename... Values>
  void line(const Pattern& pattern, const Values&... values) {
    constexpr std::size_t kPiece = 1U << 16U;
    if (text_.size() >= kPiece) flush();
    write(FMT_COMPILE("{}"), first_ ? "\n" : ",\n");
    first_ = false;
    write(pattern, values...);
  }
  void flush() {
    append_({text_.data(), text_.size()});
    text_.clear();
  }
  void time(Ticks ticks) {
    if (scale_ != static_cast<double>(kTicksPerMicrosecond)) {
      return write(FMT_COMPILE("{:.6f}"), static_cast<double>(ticks) / scale_);
    }
    write(FMT_COMPILE("{}.{:06}"), ticks / kTicksPerMicrosecond, ticks % kTicksPerMicrosecond);
  }

  void slice(const TraceEvent& event) {
    line(FMT_COMPILE(R"({{"ph":"X","name":"{})"), event.word);
    if (event.piece) {
      write(FMT_COMPILE("{}{}"), kPhases[static_cast<std::size_t>(event.piece->phase)],
            event.piece->micro_batch);
    }
    write(FMT_COMPILE(R"(","cat":"{}","pid":{},"tid":{},"ts":)"), event.category, event.device,
          event.thread);
    time(event.start);
    write(FMT_COMPILE(R"(,"dur":)"));
    time(event.length);
    write(FMT_COMPILE("}}"));
  }
  void arrow(const TraceEvent& event) {
    const bool starts = event.kind == Kind::ArrowStart;
    line(FMT_COMPILE(R"({{"ph":"{}","name":"{}","cat":"{}","id":{},"pid":{},"tid":{},"ts":)"),
         starts ? 's' : 'f', event.word, event.category, event.message, event.device, event.thread);
    time(event.start);
    write(FMT_COMPILE("{}}}"), starts ? "" : R"(,"bp":"e")");
  }

  /// Names of blocks and tensors come from files.
  static std::string quoted(const std::string& name) {
    return nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  double scale_;
  const std::function<void(std::string_view)>& append_;
  fmt::memory_buffer text_;
  bool first_ = true;
};

void name_tracks(const Program& program, std::span<const ProgramDevice> devices,
                 TraceWriter& writer) {
  for (int d = 0; d < program.devices; ++d) {
    std::string name = fmt::format("stage {}", d);
    if (!devices.empty()) {
      const ProgramDevice& device = devices[static_cast<std::size_t>(d)];
      name +=
          fmt::format(" (ranks {}-{})", device.first_rank, device.first_rank + device.ranks - 1);
    }
    writer.name_process(d, "\"" + name + "\"");
    writer.name_thread(d, 0, "compute");
  }
  for (std::size_t c = 0; c < program.channels.size(); ++c) {
    const Channel& channel = program.channels[c];
    writer.name_thread(channel.source, kFirstChannelThread + static_cast<int>(c),
                       fmt::format("to stage {}", channel.destination));
  }
}

}  // namespace

Trace::Trace(const PricedProgram& program)
    : Trace(program, static_cast<double>(kTicksPerMicrosecond)) {
  devices_ = program.devices;
  blocks_ = program.blocks;
}

bool Trace::extend(const MoreMicroBatches& more) {
  std::optional<TracePeriod> period;
  Ticks middle = 0;
  bool repeats = true;
  std::vector<TraceBlock> blocks;
  visit_tracks(simulated_, devices_, end(), [&](std::span<const TraceEvent> track) {
    if (!period) {
      period = period_of(track, more.step, more.enough);
      middle = track[track.size() / 2].start;
    }
    if (!period || !repeats) return;
    const auto block = block_of(track, *period, middle);
    repeats =
        block && (block->length == 0 || block->periods * period->micro_batches >= more.enough);
    if (block) blocks.push_back(*block);
  });
  if (!period || !repeats || more.count % period->micro_batches != 0) return false;
  more_ = more;
  period_ = *period;
  times_ = more.count / period->micro_batches;
  repeats_ = std::move(blocks);
  return true;
}

template <typename Visit>
void Trace::each_event(const Visit& visit) const {
  std::size_t number = 0;
  std::uint32_t more_messages = 0;  // of the tracks before
  OccasionalStop stop(1024);
  visit_tracks(simulated_, devices_, end(), [&](std::span<const TraceEvent> track) {
    const TraceBlock block =
        repeats_.empty() ? TraceBlock{track.size(), 0, 0, 0} : repeats_[number++];
    const auto show = [&](std::size_t begin, std::size_t count, int times) {
      for (const TraceEvent& event : track.subspan(begin, count)) {
        stop.check();
        TraceEvent shown = later(event, period_, block.messages, times);
        shown.message += more_messages;
        // The micro-batches of a replica follow those of the one before.
        if (shown.piece)
          shown.piece->micro_batch += shown.piece->group / more_.stages * more_.count;
        visit(shown);
      }
    };
    show(0, block.end, 0);
    if (block.length > 0) {
      for (int i = 1; i <= times_; ++i) show(block.end - block.length, block.length, i);
    }
    show(block.end, track.size() - block.end, times_);
    more_messages += static_cast<std::uint32_t>(times_) * block.messages;
  });
}

std::int64_t Trace::events() const {
  std::int64_t count = 0;
  each_event([&](const TraceEvent&) { ++count; });
  return count;
}

void Trace::write(const std::function<void(std::string_view)>& append) const {
  TraceWriter writer(scale_, append);
  const Program& program = simulated_.program;
  name_tracks(program, devices_, writer);
  each_event([&](const TraceEvent& event) { writer.write(event); });
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    writer.write_block(program.devices + static_cast<int>(b), blocks_[b]);
  }
  writer.finish();
}

}  // namespace plansearch
