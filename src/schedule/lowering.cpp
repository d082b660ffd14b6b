// SPDX-License-Identifier: Apache-2.0
// Computes:   the program of a compute order: waits, sends and receives around every piece.
// Source:     alpa-projects/alpa@b8078a9f runtime_emitter.py (just-in-time and overlapped lists).
// Assumes:    one channel per pair of devices and direction.
// Units:      none.
// Checked by: tests/unit/schedule/lowering_test.cpp
#include "schedule/lowering.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

struct PlacedStep {
  int device = 0;
  ComputeStep step;
};

/// Emits the instructions of compute steps in whichever sequence it is asked to.
class Lowering {
 public:
  Lowering(const ComputeOrder& order, const LoweringOptions& options)
      : order_(order), options_(options) {
    for (std::size_t d = 0; d < order.devices.size(); ++d) {
      program_.queues.push_back({static_cast<int>(d), StreamKind::Compute, 0, {}});
    }
  }

  /// The step with what it waits for before and what it sends after.
  void emit_with_messages(const PlacedStep& placed) {
    if (const auto from = producer(placed)) receive(*from, placed);
    run(placed);
    if (const auto to = consumer(placed)) send(placed, *to);
  }

  void emit_transfer_to(const PlacedStep& placed) {
    const auto from = producer(placed);
    if (!from) return;
    send(*from, placed);
    receive(*from, placed);
  }

  void run(const PlacedStep& placed) {
    const std::size_t k = stage_of(placed);
    add_local_dependency(placed);
    done_[key_of(placed)] = {compute_queue(placed.device), compute(placed.device).size()};
    compute(placed.device)
        .push_back({key_of(placed), Run{}, compute_row(k, placed.step.phase), std::nullopt});
  }

  [[nodiscard]] Program take() {
    for (const auto& [to, from] : pending_) {
      program_.dependencies.push_back({done_.at(from), to});
    }
    return std::move(program_);
  }

 private:
  using Instructions = std::vector<Instruction>;

  static std::size_t compute_queue(int device) { return static_cast<std::size_t>(device); }
  Instructions& compute(int device) { return program_.queues[compute_queue(device)].instructions; }
  [[nodiscard]] std::size_t stage_of(const PlacedStep& placed) const {
    return order_.virtual_stage(placed.device, placed.step.chunk);
  }
  [[nodiscard]] InstructionKey key_of(const PlacedStep& placed) const {
    return {static_cast<int>(stage_of(placed)),
            0,
            0,
            placed.step.micro_batch,
            placed.step.chunk,
            placed.step.phase};
  }

  /// The same micro-batch and phase one virtual stage further along (+1) or back (-1).
  [[nodiscard]] std::optional<PlacedStep> neighbour(const PlacedStep& placed, int offset) const {
    const auto k = static_cast<std::ptrdiff_t>(stage_of(placed)) + offset;
    if (k < 0 || k >= static_cast<std::ptrdiff_t>(order_.pipeline.size())) return std::nullopt;
    const StagePlace& place = order_.pipeline[static_cast<std::size_t>(k)];
    return PlacedStep{place.device, {place.chunk, placed.step.micro_batch, placed.step.phase}};
  }
  [[nodiscard]] std::optional<PlacedStep> remote(const PlacedStep& placed, int offset) const {
    auto other = neighbour(placed, offset);
    return other && other->device != placed.device ? other : std::nullopt;
  }
  [[nodiscard]] std::optional<PlacedStep> producer(const PlacedStep& placed) const {
    if (placed.step.phase == Phase::WeightGradient) return std::nullopt;
    return remote(placed, placed.step.phase == Phase::Forward ? -1 : 1);
  }
  [[nodiscard]] std::optional<PlacedStep> consumer(const PlacedStep& placed) const {
    if (placed.step.phase == Phase::WeightGradient) return std::nullopt;
    return remote(placed, placed.step.phase == Phase::Forward ? 1 : -1);
  }

  /// What the step needs from its own device.
  [[nodiscard]] std::optional<PlacedStep> local_input(const PlacedStep& placed) const {
    PlacedStep input = placed;
    if (placed.step.phase == Phase::WeightGradient) {
      input.step.phase = Phase::Backward;
      return input;
    }
    const int offset = placed.step.phase == Phase::Forward ? -1 : 1;
    const auto before = neighbour(placed, offset);
    if (before && before->device == placed.device) return before;
    if (placed.step.phase == Phase::Forward) return std::nullopt;
    input.step.phase = Phase::Forward;
    return input;
  }
  /// Queue order says it already when the input has been emitted before.
  void add_local_dependency(const PlacedStep& placed) {
    const auto input = local_input(placed);
    if (!input || done_.contains(key_of(*input))) return;
    pending_.push_back(
        {{compute_queue(placed.device), compute(placed.device).size()}, key_of(*input)});
  }

  [[nodiscard]] bool rendezvous() const {
    return options_.sends == SendPolicy::Rendezvous || options_.sends == SendPolicy::JustInTime;
  }
  int channel(const PlacedStep& from, const PlacedStep& to) {
    const auto id = std::tuple(from.device, to.device, from.step.phase);
    const auto [found, inserted] = channels_.try_emplace(id, program_.channels.size());
    if (inserted) {
      program_.channels.push_back(
          {from.device, to.device, ChannelSemantics::Rendezvous, options_.receive_slots});
      receive_queues_.push_back(std::nullopt);
    }
    return static_cast<int>(found->second);
  }

  void send(const PlacedStep& from, const PlacedStep& to) {
    const int line = channel(from, to);
    const std::size_t boundary = std::min(stage_of(from), stage_of(to));
    compute(from.device)
        .push_back({key_of(from), PostSend{line},
                    transfer_row(order_.pipeline.size(), boundary, from.step.phase), std::nullopt});
    if (options_.sends != SendPolicy::Asynchronous) {
      compute(from.device).push_back({key_of(from), Wait{line, ChannelEnd::Send}, 0, std::nullopt});
    }
  }

  void receive(const PlacedStep& from, const PlacedStep& to) {
    const int line = channel(from, to);
    receive_instructions(line, to.device)
        .push_back({key_of(from), PostReceive{line}, 0, std::nullopt});
    compute(to.device).push_back({key_of(from), Wait{line, ChannelEnd::Receive}, 0, std::nullopt});
  }
  /// Receives are posted by the compute queue itself, or ahead of it from a queue of their own.
  Instructions& receive_instructions(int line, int device) {
    if (rendezvous()) return compute(device);
    auto& queue = receive_queues_[static_cast<std::size_t>(line)];
    if (!queue) {
      queue = program_.queues.size();
      program_.queues.push_back({device, StreamKind::Receive, line, {}});
    }
    return program_.queues[*queue].instructions;
  }

  const ComputeOrder& order_;
  LoweringOptions options_;
  Program program_;
  std::map<std::tuple<int, int, Phase>, std::size_t> channels_;
  std::vector<std::optional<std::size_t>> receive_queues_;  ///< by channel
  std::map<InstructionKey, InstructionPlace> done_;
  std::vector<std::pair<InstructionPlace, InstructionKey>> pending_;
};

/// All steps by the tick at which they would start if every piece took one tick and messages none.
std::map<Ticks, std::vector<PlacedStep>> by_clock(const ComputeOrder& order) {
  const auto built = build_task_graph(lower(order));
  const auto* graph = std::get_if<TaskGraph>(&built);
  PLANSEARCH_CHECK(graph != nullptr);
  const std::size_t count = order.pipeline.size();
  std::vector<Ticks> table(1 + 5 * count, 0);
  std::fill_n(table.begin() + 1, 3 * count, Ticks{1});
  TaskSimulator simulator;
  simulator.run(*graph, table);
  std::map<Ticks, std::vector<PlacedStep>> clock;
  for (std::size_t i = 0; i < graph->tasks.size(); ++i) {
    const TaskInfo& task = graph->tasks[i];
    if (task.kind != TaskKind::Run) continue;
    clock[simulator.start(i)].push_back(
        {task.device, {task.key.chunk, task.key.micro_batch, task.key.phase}});
  }
  for (auto& [tick, steps] : clock) {
    std::sort(steps.begin(), steps.end(), [](const PlacedStep& a, const PlacedStep& b) {
      return std::tie(a.device, a.step) < std::tie(b.device, b.step);
    });
  }
  return clock;
}

}  // namespace

Program lower(const ComputeOrder& order, const LoweringOptions& options) {
  Lowering lowering(order, options);
  if (options.sends == SendPolicy::JustInTime) {
    for (const auto& [tick, steps] : by_clock(order)) {
      for (const PlacedStep& placed : steps) lowering.emit_transfer_to(placed);
      for (const PlacedStep& placed : steps) lowering.run(placed);
    }
  } else {
    for (std::size_t d = 0; d < order.devices.size(); ++d) {
      for (const ComputeStep& step : order.devices[d]) {
        lowering.emit_with_messages({static_cast<int>(d), step});
      }
    }
  }
  return lowering.take();
}

}  // namespace plansearch
