// SPDX-License-Identifier: Apache-2.0
#include "report/program_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace plansearch {
namespace {

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

}  // namespace

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

}  // namespace plansearch
