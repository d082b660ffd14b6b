// SPDX-License-Identifier: Apache-2.0
// Computes:   the program of a compute order: waits, sends and receives around every piece, what it
//             keeps, and the end of the step.
// Source:     alpa-projects/alpa@b8078a9f runtime_emitter.py (just-in-time and overlapped lists).
// Assumes:    messages take memory of their own where receives are listed or have slots; elsewhere
//             they are part of what the pieces keep and work with.
// Units:      bytes.
// Checked by: tests/unit/schedule/lowering_test.cpp
#include "schedule/lowering.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr std::size_t kPhases = 3;

struct PlacedStep {
  int device = 0;
  std::size_t stage = 0;
  ComputeStep step;
};

/// Emits the instructions of compute steps in whichever sequence it is asked to.
class Lowering {
 public:
  Lowering(const ComputeOrder& order, const LoweringOptions& options)
      : order_(order),
        options_(options),
        micro_batches_(static_cast<std::size_t>(order.micro_batches)),
        stage_of_(stages_by_chunk(order)),
        runs_(order.pipeline.size() * micro_batches_ * kPhases, kNoId),
        messages_(2 * order.pipeline.size() * micro_batches_, kNoId),
        runs_of_(order.devices.size(), 0) {
    program_.devices = static_cast<int>(order.devices.size());
    std::size_t steps = 0;
    for (std::size_t d = 0; d < order.devices.size(); ++d) {
      program_.queues.push_back({static_cast<int>(d), StreamKind::Compute, 0, {}});
      program_.queues.back().order.reserve(3 * order.devices[d].size());
      steps += order.devices[d].size();
    }
    program_.instructions.reserve(3 * steps);
    program_.messages.reserve(steps);
    if (options.links != nullptr) program_.resources = options.links->resources;
    open_channels();
  }

  [[nodiscard]] PlacedStep place(std::size_t device, const ComputeStep& step) const {
    const std::size_t slot = device * static_cast<std::size_t>(order_.chunks());
    return {static_cast<int>(device), stage_of_[slot + static_cast<std::size_t>(step.chunk)], step};
  }

  /// A piece with all it waits for before and all it sends after.
  void emit_with_messages(std::size_t device, std::span<const ComputeStep> piece) {
    for (const ComputeStep& step : piece) {
      const PlacedStep placed = place(device, step);
      if (const auto way = way_in(placed)) receive(*way, placed);
    }
    const bool overlapped = piece.size() > 1 && overlaps(piece);
    for (const ComputeStep& step : piece) {
      run(place(device, step), overlapped && step.phase == Phase::Forward);
    }
    for (const ComputeStep& step : piece) {
      if (const auto way = way_out(place(device, step))) send(*way, step.micro_batch);
    }
  }

  void emit_transfer_to(const PlacedStep& placed) {
    const auto way = way_in(placed);
    if (!way) return;
    send(*way, placed.step.micro_batch);
    receive(*way, placed);
  }

  void run(const PlacedStep& placed, bool overlapped = false) {
    if (options_.bytes != nullptr) allocate(placed);
    const std::uint32_t row =
        overlapped ? overlapped_row(placed.stage) : compute_row(placed.stage, placed.step.phase);
    const InstructionId id =
        emit(compute_queue(placed.device), key_of(placed), Opcode::Run, row, kNoId);
    add_local_event(placed, id);
    const std::size_t index = run_index(placed.stage, placed.step.micro_batch, placed.step.phase);
    runs_[index] = id;
    if (options_.bytes != nullptr) release(placed);
    const auto device = static_cast<std::size_t>(placed.device);
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
      const std::size_t queue = compute_queue(d);
      if (!reduces_early()) reduce(d);
      if (!end.sums_shared.empty() && end.sums_shared[static_cast<std::size_t>(d)]) {
        emit(queue, key, Opcode::Collective, step_row(count, d, StepPart::SharedReduction),
             kSharedGang);
      }
      if (end.together) emit(queue, key, Opcode::Collective, 0, kNormGang);
      emit(queue, key, Opcode::Apply, step_row(count, d, StepPart::Optimizer), kNoId);
    }
  }

  [[nodiscard]] Program take() {
    for (Message& message : program_.messages) {
      const int forward = message.tensor == TensorKind::Activation ? 1 : -1;
      const auto from = static_cast<std::size_t>(message.key.group);
      const std::size_t to = from + static_cast<std::size_t>(forward);
      message.producer = runs_[run_index(from, message.key.micro_batch, message.key.phase)];
      message.consumer = runs_[run_index(to, message.key.micro_batch, message.key.phase)];
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
  /// One direction of a boundary.
  struct Way {
    std::size_t boundary = 0;
    Phase direction = Phase::Forward;
  };

  static std::vector<std::size_t> stages_by_chunk(const ComputeOrder& order) {
    std::vector<std::size_t> stages(order.pipeline.size());
    for (std::size_t k = 0; k < order.pipeline.size(); ++k) {
      const StagePlace& place = order.pipeline[k];
      stages[static_cast<std::size_t>(place.device * order.chunks() + place.chunk)] = k;
    }
    return stages;
  }
  static std::size_t compute_queue(int device) { return static_cast<std::size_t>(device); }
  [[nodiscard]] std::size_t run_index(std::size_t stage, int micro_batch, Phase phase) const {
    const std::size_t piece = stage * micro_batches_ + static_cast<std::size_t>(micro_batch);
    return piece * kPhases + static_cast<std::size_t>(phase);
  }
  static std::size_t way_index(const Way& way) {
    return 2 * way.boundary + (way.direction == Phase::Forward ? 0 : 1);
  }
  [[nodiscard]] InstructionKey key_of(const PlacedStep& placed) const {
    return {static_cast<int>(placed.stage),
            0,
            0,
            placed.step.micro_batch,
            placed.step.chunk,
            placed.step.phase};
  }

  [[nodiscard]] InstructionKey key_of_device(int device) const {
    InstructionKey key;
    key.group = static_cast<int>(place(static_cast<std::size_t>(device), {}).stage);
    return key;
  }

  [[nodiscard]] bool reduces_early() const {
    return options_.end != nullptr && options_.end->reductions == ReductionTime::WithLastBackward;
  }
  InstructionId reduce(int device) {
    return emit(compute_queue(device), key_of_device(device), Opcode::Collective,
                step_row(order_.pipeline.size(), device, StepPart::Reduction), kNoId);
  }

  InstructionId emit(std::size_t queue, const InstructionKey& key, Opcode opcode,
                     std::uint32_t duration, std::uint32_t subject) {
    const auto id = static_cast<InstructionId>(program_.instructions.size());
    program_.instructions.push_back({key, opcode, duration, subject});
    program_.queues[queue].order.push_back(id);
    return id;
  }

  /// Boundaries between different devices have a channel each way, the same for the same devices.
  void open_channels() {
    const std::size_t count = order_.pipeline.size();
    channel_of_.assign(2 * count, kNoId);
    std::map<std::tuple<int, int, Phase>, std::uint32_t> known;
    const auto open = [&](const Way& way, int from, int to) {
      const bool apart = options_.sends.channels == ChannelSharing::PerTensor;
      const std::tuple id(from, to, apart ? way.direction : Phase::Forward);
      const auto next = static_cast<std::uint32_t>(program_.channels.size());
      const auto [found, inserted] = known.try_emplace(id, next);
      if (inserted) {
        program_.channels.push_back(
            {from, to, ChannelSemantics::Rendezvous, options_.receive_slots, uses_of(way)});
      }
      channel_of_[way_index(way)] = found->second;
    };
    for (std::size_t k = 0; k + 1 < count; ++k) {
      const int low = order_.pipeline[k].device;
      const int high = order_.pipeline[k + 1].device;
      if (low == high || !order_.neighbour(k, 1)) continue;
      open({k, Phase::Forward}, low, high);
      open({k, Phase::Backward}, high, low);
    }
    receive_queues_.assign(program_.channels.size(), std::nullopt);
  }
  [[nodiscard]] std::vector<ResourceUse> uses_of(const Way& way) const {
    if (options_.links == nullptr) return {};
    const PipelineLinks& links = *options_.links;
    return (way.direction == Phase::Forward ? links.forward : links.backward)[way.boundary];
  }

  /// By what way the input of a step comes from another device, or its result leaves for one.
  [[nodiscard]] std::optional<Way> way_in(const PlacedStep& placed) const {
    if (placed.step.phase == Phase::WeightGradient) return std::nullopt;
    return way_at(placed, placed.step.phase == Phase::Backward);
  }
  [[nodiscard]] std::optional<Way> way_out(const PlacedStep& placed) const {
    if (placed.step.phase == Phase::WeightGradient) return std::nullopt;
    return way_at(placed, placed.step.phase == Phase::Forward);
  }
  [[nodiscard]] std::optional<Way> way_at(const PlacedStep& placed, bool upper) const {
    if (at_end(placed, upper)) return std::nullopt;
    const Way way{upper ? placed.stage : placed.stage - 1, placed.step.phase};
    if (channel_of_[way_index(way)] == kNoId) return std::nullopt;
    return way;
  }

  MessageId message(const Way& way, int micro_batch) {
    const std::size_t index =
        way_index(way) * micro_batches_ + static_cast<std::size_t>(micro_batch);
    if (messages_[index] != kNoId) return messages_[index];
    const bool forward = way.direction == Phase::Forward;
    const std::size_t from = forward ? way.boundary : way.boundary + 1;
    Message made;
    made.key = {static_cast<int>(from), 0, 0, micro_batch, order_.pipeline[from].chunk,
                way.direction};
    made.tensor = forward ? TensorKind::Activation : TensorKind::Gradient;
    made.channel = channel_of_[way_index(way)];
    made.duration = transfer_row(order_.pipeline.size(), way.boundary, way.direction);
    messages_[index] = static_cast<MessageId>(program_.messages.size());
    program_.messages.push_back(made);
    return messages_[index];
  }

  void send(const Way& way, int micro_batch) {
    const MessageId id = message(way, micro_batch);
    const std::size_t queue =
        compute_queue(program_.channels[program_.messages[id].channel].source);
    const bool waits = options_.sends.sends == SendCompletion::Waits;
    emit(queue, program_.messages[id].key, waits ? Opcode::Send : Opcode::PostSend, 0, id);
    const BufferId leaving = program_.messages[id].leaving;
    if (leaving != kNoId) emit(queue, program_.messages[id].key, Opcode::Free, 0, leaving);
  }

  void receive(const Way& way, const PlacedStep& placed) {
    const MessageId id = message(way, placed.step.micro_batch);
    const InstructionKey key = program_.messages[id].key;
    const bool in_order = options_.sends.receives == Receives::InOrder;
    const std::size_t compute = compute_queue(placed.device);
    const std::size_t queue = in_order ? compute : receive_queue(program_.messages[id].channel);
    const bool takes = options_.bytes != nullptr && (in_order || options_.receive_slots);
    if (takes) {
      program_.messages[id].arriving =
          add_buffer(placed.device, BufferKind::Arriving, bytes_of(way));
    }
    const auto take = [&] {
      if (takes) emit(queue, key, Opcode::Allocate, 0, program_.messages[id].arriving);
    };
    // A buffer is taken when the receive is posted: before a receive that blocks, after a post.
    if (in_order) take();
    emit(queue, key, in_order ? Opcode::Receive : Opcode::PostReceive, 0, id);
    if (in_order) return;
    take();
    emit(compute, key, Opcode::WaitArrived, 0, id);
  }
  std::size_t receive_queue(std::uint32_t channel) {
    auto& queue = receive_queues_[channel];
    if (!queue) {
      queue = program_.queues.size();
      program_.queues.push_back({program_.channels[channel].destination,
                                 StreamKind::Receive,
                                 static_cast<int>(channel),
                                 {}});
    }
    return *queue;
  }

  /// What the step needs from its own device: queue order says it where that came before.
  void add_local_event(const PlacedStep& placed, InstructionId id) {
    const Phase phase = placed.step.phase;
    const bool upper = phase == Phase::Backward;
    std::size_t input = runs_.size();
    if (phase == Phase::WeightGradient) {
      input = run_index(placed.stage, placed.step.micro_batch, Phase::Backward);
    } else if (!at_end(placed, upper) && !way_at(placed, upper)) {
      const std::size_t neighbour = upper ? placed.stage + 1 : placed.stage - 1;
      input = run_index(neighbour, placed.step.micro_batch, phase);
    } else if (phase == Phase::Backward) {
      input = run_index(placed.stage, placed.step.micro_batch, Phase::Forward);
    }
    if (input < runs_.size() && runs_[input] == kNoId) pending_.emplace_back(input, id);
  }
  [[nodiscard]] bool at_end(const PlacedStep& placed, bool upper) const {
    return !order_.neighbour(placed.stage, upper ? 1 : -1);
  }

  BufferId add_buffer(int device, BufferKind kind, Bytes bytes) {
    program_.buffers.push_back({device, kind, bytes});
    return static_cast<BufferId>(program_.buffers.size() - 1);
  }
  [[nodiscard]] Bytes bytes_of(const Way& way) const {
    const PipelineBytes& bytes = *options_.bytes;
    return (way.direction == Phase::Forward ? bytes.activation : bytes.gradient)[way.boundary];
  }
  [[nodiscard]] bool splits() const { return order_.weight_gradients == WeightGradients::Separate; }
  [[nodiscard]] Bytes for_weights(std::size_t stage) const {
    const PipelineBytes& bytes = *options_.bytes;
    if (!splits()) return {};
    return bytes.for_weights.empty() ? bytes.saved[stage] : bytes.for_weights[stage];
  }

  /// What a forward keeps: until the input gradient, and until the weight gradient.
  void allocate(const PlacedStep& placed) {
    const auto way = way_out(placed);
    if (way && options_.sends.receives == Receives::InOrder) {
      const BufferId buffer = add_buffer(placed.device, BufferKind::Leaving, bytes_of(*way));
      program_.messages[message(*way, placed.step.micro_batch)].leaving = buffer;
      emit(compute_queue(placed.device), key_of(placed), Opcode::Allocate, 0, buffer);
    }
    if (placed.step.phase != Phase::Forward) return;
    if (kept_.empty()) kept_.assign(2 * order_.pipeline.size() * micro_batches_, kNoId);
    const Bytes late = for_weights(placed.stage);
    const Bytes early = options_.bytes->saved[placed.stage] - late;
    const std::size_t queue = compute_queue(placed.device);
    const auto keep = [&](Phase until, BufferKind kind, Bytes bytes) {
      if (bytes <= Bytes(0)) return;
      const BufferId buffer = add_buffer(placed.device, kind, bytes);
      kept_[kept_index(placed, until)] = buffer;
      emit(queue, key_of(placed), Opcode::Allocate, 0, buffer);
    };
    keep(Phase::Backward, BufferKind::Activation, early);
    keep(Phase::WeightGradient, BufferKind::ForWeights, late);
  }
  void release(const PlacedStep& placed) {
    const std::size_t queue = compute_queue(placed.device);
    if (const auto way = way_in(placed)) {
      const MessageId id = message(*way, placed.step.micro_batch);
      const BufferId arrived = program_.messages[id].arriving;
      if (arrived != kNoId) emit(queue, key_of(placed), Opcode::Free, 0, arrived);
    }
    if (placed.step.phase == Phase::Forward || kept_.empty()) return;
    const BufferId kept = kept_[kept_index(placed, placed.step.phase)];
    if (kept != kNoId) emit(queue, key_of(placed), Opcode::Free, 0, kept);
  }
  [[nodiscard]] std::size_t kept_index(const PlacedStep& placed, Phase until) const {
    const auto micro_batch = static_cast<std::size_t>(placed.step.micro_batch);
    return 2 * (placed.stage * micro_batches_ + micro_batch) + (until == Phase::Backward ? 0 : 1);
  }

  const ComputeOrder& order_;
  LoweringOptions options_;
  std::size_t micro_batches_;
  std::vector<std::size_t> stage_of_;  ///< by device and chunk
  std::vector<InstructionId> runs_;    ///< by stage, micro-batch and phase
  std::vector<MessageId> messages_;    ///< by way and micro-batch
  std::vector<std::size_t> runs_of_;   ///< by device: emitted so far
  /// Last pieces of devices, and the reductions that are part of them.
  std::vector<std::pair<InstructionId, InstructionId>> made_with_;
  std::vector<BufferId> kept_;             ///< by stage, micro-batch and what frees it
  std::vector<std::uint32_t> channel_of_;  ///< by way
  std::vector<std::optional<std::size_t>> receive_queues_;  ///< by channel
  std::vector<std::pair<std::size_t, InstructionId>> pending_;
  Program program_;
};

/// All steps with the tick at which they would start if every piece took one tick and messages
/// none, in the order of ticks, devices and steps.
std::vector<std::pair<Ticks, PlacedStep>> by_clock(const ComputeOrder& order,
                                                   const Lowering& lowering) {
  const Program program = lower(order);
  const auto built = build_task_graph(program);
  const auto* graph = std::get_if<TaskGraph>(&built);
  PLANSEARCH_CHECK(graph != nullptr);
  const std::size_t count = order.pipeline.size();
  const std::vector<Ticks> ones(count, 1);
  const std::vector<Ticks> none(count - 1, 0);
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
                         lowering.place(static_cast<std::size_t>(queue.device),
                                        {key.chunk, key.micro_batch, key.phase}));
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
    const auto clock = by_clock(order, lowering);
    for (auto tick = clock.begin(); tick != clock.end();) {
      const auto next = std::find_if(tick, clock.end(),
                                     [&](const auto& step) { return step.first != tick->first; });
      for (auto step = tick; step != next; ++step) lowering.emit_transfer_to(step->second);
      for (auto step = tick; step != next; ++step) lowering.run(step->second);
      tick = next;
    }
  } else {
    for (std::size_t d = 0; d < order.devices.size(); ++d) {
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
