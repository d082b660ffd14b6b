// SPDX-License-Identifier: Apache-2.0
// A simulated program as a few lines of text: one row per device, one column per slot of time.
//
//   stage 0  | 00112233...a..b..c..d~^
//     sends  | ...>>>>>>>>............
//
// 0-9 forward of a micro-batch, a-j backward, = weight gradient, ~ reductions, ^ optimizer; of the
// messages on their way > activations, < gradients.
#include "report/plan_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "base/units.hpp"
#include "evaluate/answer/plan_details.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "report/text_table.hpp"
#include "schedule/program/timeline.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

enum class PictureOf : std::uint8_t {
  Pipeline,  ///< pieces only
  Step,      ///< messages, reductions and optimizers too
};

struct PictureWindow {
  Ticks from = 0;
  Ticks to = 0;
  int columns = 88;
  int most_devices = 16;  ///< evenly chosen where there are more
  PictureOf of = PictureOf::Pipeline;
};

char sign_of(const Instruction& instruction) {
  if (instruction.opcode == Opcode::Collective) return '~';
  if (instruction.opcode == Opcode::Apply) return '^';
  const InstructionKey& key = instruction.key;
  if (key.phase == Phase::WeightGradient) return '=';
  return static_cast<char>((key.phase == Phase::Forward ? '0' : 'a') + key.micro_batch % 10);
}

/// Rows of equal slots.
class Rows {
 public:
  Rows(const PictureWindow& window, int devices)
      : window_(window),
        rows_(static_cast<std::size_t>(devices),
              std::string(static_cast<std::size_t>(window.columns), '.')),
        slot_(static_cast<double>(window.to - window.from) / window.columns) {}

  /// From the first column whose middle is not before the start to the last before the end.
  void fill(int device, Ticks start, Ticks end, char sign) {
    const auto column = [&](Ticks at) {
      const double exact = static_cast<double>(at - window_.from) / slot_ - 0.5;
      return std::clamp(static_cast<int>(std::ceil(exact - 1e-9)), 0, window_.columns);
    };
    std::string& row = rows_[static_cast<std::size_t>(device)];
    for (int c = column(start); c < column(end); ++c) row[static_cast<std::size_t>(c)] = sign;
  }
  /// Where something begins, however short it is.
  void mark(int device, Ticks start, char sign) {
    const auto column = static_cast<int>(static_cast<double>(start - window_.from) / slot_);
    if (start < window_.from || column >= window_.columns) return;
    char& cell = rows_[static_cast<std::size_t>(device)][static_cast<std::size_t>(column)];
    if (cell == '.') cell = sign;
  }
  [[nodiscard]] const std::string& at(int device) const {
    return rows_[static_cast<std::size_t>(device)];
  }

 private:
  const PictureWindow& window_;
  std::vector<std::string> rows_;
  double slot_;
};

void fill_work(const SimulatedProgram& simulated, PictureOf of, Rows& rows) {
  for (const Queue& queue : simulated.program.queues) {
    for (const InstructionId id : queue.order) {
      const Instruction& instruction = simulated.program.instructions[id];
      const bool ends =
          instruction.opcode == Opcode::Apply || instruction.opcode == Opcode::Collective;
      if (instruction.opcode != Opcode::Run && (!ends || of == PictureOf::Pipeline)) continue;
      const TaskId task = simulated.graph.task_of[id];
      rows.fill(queue.device, simulated.times.start(task), simulated.times.end(task),
                sign_of(instruction));
    }
  }
}

void fill_sends(const SimulatedProgram& simulated, Rows& rows) {
  for (MessageId id = 0; id < simulated.program.messages.size(); ++id) {
    const Message& message = simulated.program.messages[id];
    const TaskId task = simulated.graph.transfer_of[id];
    if (task == kNoId) continue;
    const int device = simulated.program.channels[message.channel].source;
    const char sign = message.tensor == TensorKind::Activation ? '>' : '<';
    const Ticks start = simulated.times.start(task);
    const Ticks end = simulated.times.end(task);
    rows.fill(device, start, end, sign);
    if (end > start) rows.mark(device, start, sign);
  }
}

/// Each column shows the instruction that runs in its middle.
std::string draw_program(const SimulatedProgram& simulated, const PictureWindow& window) {
  const int devices = simulated.program.devices;
  Rows work(window, devices);
  Rows sends(window, devices);
  fill_work(simulated, window.of, work);
  fill_sends(simulated, sends);
  const int shown = std::min(devices, window.most_devices);
  std::string text;
  for (int i = 0; i < shown; ++i) {
    const int device = shown == 1 ? 0 : i * (devices - 1) / (shown - 1);
    text += fmt::format("stage {:<2} | {}\n", device, work.at(device));
    if (window.of == PictureOf::Pipeline || devices == 1) continue;
    text += fmt::format("   sends | {}\n", sends.at(device));
  }
  return text;
}

constexpr int kColumns = 88;  // behind "stage 12 | "
constexpr int kMargin = 11;
constexpr int kFewestColumns = 20;

int picture_width(int columns) {
  return columns <= kAnyWidth ? kColumns : std::max(columns - kMargin, kFewestColumns);
}

/// Columns of the shortest piece that can be read.
constexpr int kColumnsOfPiece = 2;

std::string legend(const PipelineShape& shape) {
  return fmt::format("0-9: forward of a micro-batch; a-j: backward{}; .: waiting",
                     splits_backward(shape.schedule) ? "; =: weight gradient" : "");
}

/// A part of a time in words.
using TimeText = std::function<std::string(Ticks whole, int parts)>;

std::string seconds_text(Ticks whole, int parts) {
  return to_text(to_seconds(whole) / parts);
}

/// When all pieces ran.
Timeline runs_of(const SimulatedProgram& simulated) {
  return make_timeline(simulated.program, simulated.graph, simulated.times);
}

Ticks shortest_run(const SimulatedProgram& program) {
  Ticks shortest = program.makespan();
  for (const TimelineEntry& run : runs_of(program).entries) {
    if (run.end > run.start) shortest = std::min(shortest, run.end - run.start);
  }
  return shortest;
}

std::string window_text(const SimulatedProgram& program, const PictureWindow& window,
                        const TimeText& time) {
  return fmt::format("\nfrom {} to {} of {}, a column is {}\n{}", time(window.from, 1),
                     time(window.to, 1), time(program.makespan(), 1),
                     time(window.to - window.from, window.columns), draw_program(program, window));
}

/// All of it, or its first and its last part where it is too long for the columns.
std::string windows_text(const SimulatedProgram& program, PictureOf of, int width,
                         const TimeText& time) {
  const Ticks all = program.makespan();
  const Ticks readable = std::max<Ticks>(shortest_run(program) * width / kColumnsOfPiece, 1);
  PictureWindow window{.from = 0, .to = all, .columns = width};
  window.of = of;
  if (all <= 2 * readable) return window_text(program, window, time);
  window.to = readable;
  std::string text = window_text(program, window, time);
  window.from = all - readable;
  window.to = all;
  return text + window_text(program, window, time);
}

/// The most memory of each stage, and when.
std::string memory_table(const PricedProgram& program, int columns) {
  TextTable table({{"stage"}, {"ranks"}, {"always"}, {"most"}, {"at"}, {"computing"}});
  const auto held = held_over_time(program);
  const std::vector<TimelineEntry> runs = runs_of(program).entries;
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    const ProgramDevice& device = program.devices[d];
    HeldBytes most;
    for (const HeldBytes& change : held[d]) {
      if (change.bytes > most.bytes) most = change;
    }
    Ticks busy = 0;
    for (const TimelineEntry& run : runs) {
      if (run.device == static_cast<int>(d)) busy += run.end - run.start;
    }
    table.add_row({fmt::format("{}", d),
                   fmt::format("{}-{}", device.first_rank, device.first_rank + device.ranks - 1),
                   device.always, device.always + most.bytes, to_seconds(most.at),
                   fmt::format("{:.1f} %", 100.0 * static_cast<double>(busy) /
                                               static_cast<double>(program.makespan()))});
  }
  return table.text(columns);
}

}  // namespace

int drawn_micro_batches(const PlanDegrees& plan, const Framework& framework,
                        const Network& network) {
  PlanDegrees drawn = plan;
  const int most = plan.micro_batches;
  drawn.micro_batches = std::min(most, plan.pipeline + 4);
  while (fault_of(pipeline_shape(drawn, framework, network)) && drawn.micro_batches < most) {
    ++drawn.micro_batches;
  }
  return drawn.micro_batches;
}

std::string pipeline_picture(const PricedProgram& program, int micro_batches, int columns) {
  const int stages = program.shape.stages;
  if (stages == 1) return {};
  const int width = std::min(picture_width(columns), kColumns);
  const PictureWindow window{.from = 0, .to = runs_of(program).makespan(), .columns = width};
  return fmt::format(
      "{} pipeline, the plan's own times, {} of {} micro-batches, {} of {} stages, a column is {}\n"
      "{}{}\n",
      to_text(program.shape.schedule), program.shape.micro_batches, micro_batches,
      std::min(stages, window.most_devices), stages,
      to_text(to_seconds(window.to / window.columns)), draw_program(program, window),
      legend(program.shape));
}

std::string plan_timeline(const PricedProgram& program, int columns) {
  std::string text = fmt::format("one step, {} schedule, {} micro-batch{}, {} stage{}\n",
                                 to_text(program.shape.schedule), program.shape.micro_batches,
                                 program.shape.micro_batches == 1 ? "" : "es", program.shape.stages,
                                 program.shape.stages == 1 ? "" : "s");
  text += verbatim(windows_text(program, PictureOf::Step, picture_width(columns), seconds_text),
                   columns);
  const bool sends = program.shape.stages > 1;
  text += fmt::format("{}\n~: reductions; ^: optimizer and host\n{}\n", legend(program.shape),
                      sends ? "messages on their way: >: activations, <: gradients\n" : "");
  return wrapped(text, columns) + memory_table(program, columns);
}

std::string schedule_timeline(const SimulatedProgram& program, const PipelineShape& shape,
                              double ticks_per_unit, int columns) {
  const auto units = [&](Ticks whole, int parts) {
    return fmt::format("{:.4g}", static_cast<double>(whole) / parts / ticks_per_unit);
  };
  return windows_text(program, PictureOf::Pipeline, picture_width(columns), units) + legend(shape) +
         "\n";
}

std::string step_timeline(const PlanEvaluator& evaluator, const ParallelPlan& plan, int columns) {
  const auto program = program_of(evaluator, plan);
  return plan_timeline(*program, columns) +
         shared_links_note(*program, *program_of(evaluator, plan, {.links = MessageLinks::Shared}));
}

std::string shared_links_note(const PricedProgram& alone, const PricedProgram& shared) {
  if (shared.makespan() == alone.makespan()) return {};
  const double more =
      static_cast<double>(shared.makespan()) / static_cast<double>(alone.makespan()) - 1.0;
  return fmt::format(
      "where messages of both directions share a rank's network cards the step takes {} ({:+.2f} "
      "%)\n",
      to_text(to_seconds(shared.makespan())), 100.0 * more);
}

}  // namespace plansearch
