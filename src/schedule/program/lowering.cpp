// SPDX-License-Identifier: Apache-2.0
// Computes:   the program of a compute order: waits, sends and receives around every piece, what it
//             keeps, and the end of the step.
// Source:     alpa-projects/alpa@b8078a9f runtime_emitter.py (just-in-time and overlapped lists).
// Assumes:    messages take memory of their own where receives are listed or have slots; elsewhere
//             they are part of what the pieces keep and work with.
// Units:      bytes.
// Checked by: tests/unit/schedule/lowering_test.cpp
#include "schedule/program/lowering.hpp"

#include <algorithm>
#include <tuple>

#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"
#include "schedule/program/lowering_messages.hpp"

namespace plansearch {
namespace {

/// A program with a compute queue per device and nothing in them.
Program empty_program(const ComputeOrder& order) {
  Program program;
  program.devices = static_cast<int>(order.devices.size());
  std::size_t steps = 0;
  for (std::size_t d = 0; d < order.devices.size(); ++d) {
    program.queues.push_back({static_cast<int>(d), StreamKind::Compute, 0, {}});
    program.queues.back().order.reserve(3 * order.devices[d].size());
    steps += order.devices[d].size();
  }
  program.instructions.reserve(3 * steps);
  program.messages.reserve(steps);
  return program;
}

/// Emits the instructions of compute steps in whichever sequence it is asked to.
class Lowering {
 public:
  Lowering(const ComputeOrder& order, const LoweringOptions& options)
      : order_(order),
        options_(options),
        paths_(order),
        program_(empty_program(order)),
        messages_(paths_, options_, program_),
        buffers_(paths_, options_, messages_, program_),
        runs_(paths_.run_count(), kNoId),
        runs_of_(order.devices.size(), 0) {}

  [[nodiscard]] const OrderPaths& paths() const { return paths_; }

  /// A piece with all it waits for before and all it sends after.
  void emit_with_messages(std::size_t device, std::span<const ComputeStep> piece) {
    for (const ComputeStep& step : piece) {
      const PlacedStep placed = paths_.place(device, step);
      if (const auto path = paths_.path_in(placed)) messages_.receive(*path, placed);
    }
    const bool overlapped = piece.size() > 1 && overlaps(piece);
    for (const ComputeStep& step : piece) {
      run(paths_.place(device, step), overlapped && step.phase == Phase::Forward);
    }
    for (const ComputeStep& step : piece) {
      const auto path = paths_.path_out(paths_.place(device, step));
      if (path) messages_.send(*path, step.micro_batch);
    }
  }

  void emit_transfer_to(const PlacedStep& placed) {
    const auto path = paths_.path_in(placed);
    if (!path) return;
    messages_.send(*path, placed.step.micro_batch);
    messages_.receive(*path, placed);
  }

  void run(const PlacedStep& placed, bool overlapped = false) {
    if (options_.bytes != nullptr) buffers_.allocate(placed);
    const auto device = static_cast<std::size_t>(placed.device);
    const std::uint32_t row =
        overlapped ? overlapped_row(placed.stage) : compute_row(placed.stage, placed.step.phase);
    const InstructionId id = emit(program_, device, key_of(placed), Opcode::Run, row, kNoId);
    add_local_events(placed, id);
    runs_[paths_.run_index(paths_.node_of(placed), placed.step.micro_batch)] = id;
    if (options_.bytes != nullptr) buffers_.release(placed);
    if (++runs_of_[device] == order_.devices[device].size() && reduces_early()) {
      made_with_.emplace_back(id, reduce(placed.device));
    }
  }

  /// Reductions and optimizers, where they are asked for.
  void end_step(const StepEnd& end) {
    constexpr std::uint32_t kSharedGang = 0, kNormGang = 1;
    const std::size_t count = order_.pipeline.size();
    for (int d = 0; d < program_.devices; ++d) {
      const InstructionKey key = key_of_device(d);
      const auto queue = static_cast<std::size_t>(d);
      if (!reduces_early()) reduce(d);
      if (!end.sums_shared.empty() && end.sums_shared[queue]) {
        emit(program_, queue, key, Opcode::Collective,
             step_row(count, d, StepPart::SharedReduction), kSharedGang);
      }
      if (end.together) emit(program_, queue, key, Opcode::Collective, 0, kNormGang);
      emit(program_, queue, key, Opcode::Apply, step_row(count, d, StepPart::Optimizer), kNoId);
    }
  }

  [[nodiscard]] Program take() {
    for (Message& message : program_.messages) {
      const Path& path = paths_.path_of(message.key);
      message.producer = runs_[paths_.run_index(path.from, message.key.micro_batch)];
      message.consumer = runs_[paths_.run_index(path.to, message.key.micro_batch)];
    }
    for (const auto& [run, reduction] : made_with_) {
      for (Message& message : program_.messages) {
        if (message.producer == run) message.producer = reduction;
      }
    }
    for (const auto& [index, to] : pending_) {
      PLANSEARCH_CHECK(runs_[index] != kNoId);  // else the order is not complete
      program_.events.push_back({runs_[index], to});
    }
    return std::move(program_);
  }

 private:
  [[nodiscard]] InstructionKey key_of_device(int device) const {
    InstructionKey key;
    key.group = static_cast<int>(paths_.place(static_cast<std::size_t>(device), {}).stage);
    return key;
  }
  [[nodiscard]] bool reduces_early() const {
    return options_.end != nullptr && options_.end->reductions == ReductionTime::WithLastBackward;
  }
  InstructionId reduce(int device) {
    return emit(program_, static_cast<std::size_t>(device), key_of_device(device),
                Opcode::Collective, step_row(order_.pipeline.size(), device, StepPart::Reduction),
                kNoId);
  }

  /// The inputs of the step from its own device, unless queue order already implies them.
  void add_local_events(const PlacedStep& placed, InstructionId id) {
    for (const NodeId node : paths_.nodes().inputs(paths_.node_of(placed))) {
      if (paths_.nodes().device(node) != placed.device) continue;
      const std::size_t input = paths_.run_index(node, placed.step.micro_batch);
      if (runs_[input] == kNoId) pending_.emplace_back(input, id);
    }
  }

  const ComputeOrder& order_;
  LoweringOptions options_;
  OrderPaths paths_;
  Program program_;
  MessageWriter messages_;
  BufferWriter buffers_;
  std::vector<InstructionId> runs_;   ///< by node and micro-batch
  std::vector<std::size_t> runs_of_;  ///< by device: emitted so far
  /// Last pieces of devices, and the reductions that are part of them.
  std::vector<std::pair<InstructionId, InstructionId>> made_with_;
  std::vector<std::pair<std::size_t, InstructionId>> pending_;
};

/// All steps with the tick at which they would start if every piece took one tick and messages
/// none, in the order of ticks, devices and steps.
std::vector<std::pair<Ticks, PlacedStep>> by_clock(const ComputeOrder& order,
                                                   const OrderPaths& paths) {
  const Program program = lower(order);
  const auto built = build_task_graph(program);
  const auto* graph = std::get_if<TaskGraph>(&built);
  PLANSEARCH_CHECK(graph != nullptr);
  const std::size_t count = order.pipeline.size();
  const std::vector<Ticks> ones(count, 1);
  const std::vector<Ticks> none(count, 0);
  const auto table = duration_table({ones, ones, ones, none, none, {}}, WeightGradients::Separate);
  TaskSimulator simulator;
  simulator.run(*graph, table);
  std::vector<std::pair<Ticks, PlacedStep>> clock;
  for (const Queue& queue : program.queues) {
    for (const InstructionId id : queue.order) {
      const Instruction& instruction = program.instructions[id];
      if (instruction.opcode != Opcode::Run) continue;
      const InstructionKey& key = instruction.key;
      clock.emplace_back(simulator.start(graph->task_of[id]),
                         paths.place(static_cast<std::size_t>(queue.device),
                                     {key.chunk, key.micro_batch, key.phase, false, key.pass}));
    }
  }
  std::sort(clock.begin(), clock.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.device, a.second.step) <
           std::tie(b.first, b.second.device, b.second.step);
  });
  return clock;
}

}  // namespace

Program lower(const ComputeOrder& order, const LoweringOptions& options) {
  Lowering lowering(order, options);
  if (options.sends.time == SendTime::Consumed) {
    const auto clock = by_clock(order, lowering.paths());
    OccasionalStop stop(64);
    for (auto tick = clock.begin(); tick != clock.end();) {
      stop.check();
      const auto next = std::find_if(tick, clock.end(),
                                     [&](const auto& step) { return step.first != tick->first; });
      for (auto step = tick; step != next; ++step) lowering.emit_transfer_to(step->second);
      for (auto step = tick; step != next; ++step) lowering.run(step->second);
      tick = next;
    }
  } else {
    for (std::size_t d = 0; d < order.devices.size(); ++d) {
      check_stop();
      const std::span<const ComputeStep> steps = order.devices[d];
      for (std::size_t i = 0; i < steps.size();) {
        const std::size_t end = piece_end(steps, i);
        lowering.emit_with_messages(d, steps.subspan(i, end - i));
        i = end;
      }
    }
  }
  if (options.end != nullptr) lowering.end_step(*options.end);
  return lowering.take();
}

}  // namespace plansearch
