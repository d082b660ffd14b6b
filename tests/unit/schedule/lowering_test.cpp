// SPDX-License-Identifier: Apache-2.0
#include "schedule/program/lowering.hpp"
#include "schedule/table.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "pipeline_support.hpp"
#include "schedule/program/timeline.hpp"
#include "support/schedules.hpp"

namespace plansearch::testing::lowering_test {
namespace {

enum class ChannelEnd { Send, Receive };
using Words = std::vector<std::string>;

ComputeOrder order_of(ScheduleId schedule, int p, int m, int v = 1) {
  return std::get<ComputeOrder>(make_order({schedule, p, m, v}));
}

/// The messages of a channel in the order in which one end posts them.
std::vector<MessageId> messages_at(const Program& program, std::uint32_t channel, ChannelEnd end) {
  const bool sender = end == ChannelEnd::Send;
  std::vector<MessageId> messages;
  for (const Queue& queue : program.queues) {
    for (std::size_t i = 0; i < queue.order.size(); ++i) {
      const Instruction& instruction = program.at(queue, i);
      const Opcode opcode = instruction.opcode;
      const bool posts = sender ? opcode == Opcode::Send || opcode == Opcode::PostSend
                                : opcode == Opcode::Receive || opcode == Opcode::PostReceive;
      if (posts && program.messages[instruction.subject].channel == channel) {
        messages.push_back(instruction.subject);
      }
    }
  }
  return messages;
}

/// "F0 of 0, send, wait": opcodes and keys of a queue in words.
std::vector<std::string> words(const Program& program, std::size_t queue) {
  constexpr const char* kWords[] = {"run",          "send",     "receive", "post send",
                                    "post receive", "sent",     "arrived", "collective",
                                    "apply",        "allocate", "free"};
  std::vector<std::string> result;
  for (const InstructionId id : program.queues[queue].order) {
    const Instruction& instruction = program.instructions[id];
    result.push_back(std::string(kWords[static_cast<std::size_t>(instruction.opcode)]) + " " +
                     "FBW"[static_cast<std::size_t>(instruction.key.phase)] +
                     std::to_string(instruction.key.micro_batch) + " of " +
                     std::to_string(instruction.key.group));
  }
  return result;
}

Ticks makespan_of(const ComputeOrder& order, const PipelineTimes& times,
                  const LoweringOptions& options) {
  return std::get<Timeline>(simulate_order(order, times, options)).makespan();
}

const Program kPair = lower(order_of(test::kGPipe, 2, 1));

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("one micro-batch through two stages") {
    REQUIRE(kPair.queues.size() == 4);
    CHECK(kPair.queues[0].stream == StreamKind::Compute);
    CHECK(words(kPair, 0) ==
          Words{"run F0 of 0", "post send F0 of 0", "arrived B0 of 1", "run B0 of 0"});
    CHECK(words(kPair, 1) ==
          Words{"arrived F0 of 0", "run F0 of 1", "run B0 of 1", "post send B0 of 1"});
    CHECK(kPair.queues[2].stream == StreamKind::Receive);
    CHECK(words(kPair, 2) == Words{"post receive B0 of 1"});
    CHECK(words(kPair, 3) == Words{"post receive F0 of 0"});
    CHECK(kPair.channels == std::vector<Channel>{{0, 1, {}}, {1, 0, {}}});
    CHECK(kPair.events.empty());
    // Rows: four a stage, then the boundary forward (9) and backward (10).
    REQUIRE(kPair.messages.size() == 2);
    const Message& activation = kPair.messages[0];
    CHECK(activation.tensor == TensorKind::Activation);
    CHECK(activation.duration == 9);
    CHECK(kPair.instructions[activation.producer].duration == 1);
    CHECK(kPair.instructions[activation.consumer].duration == 5);
    const Message& gradient = kPair.messages[1];
    CHECK(gradient.tensor == TensorKind::Gradient);
    CHECK(gradient.duration == 10);
    CHECK(kPair.instructions[gradient.producer].duration == 6);
    CHECK(kPair.instructions[gradient.consumer].duration == 2);
  }

  TEST_CASE("1F1B with blocking rendezvous in list order deadlocks, and the cycle is told") {
    const auto built =
        build_task_graph(lower(order_of(kDefaultSchedule, 2, 2), {SendPolicy::Rendezvous, {}}));
    const auto* fault = std::get_if<ProgramFault>(&built);
    REQUIRE(fault != nullptr);
    CHECK(fault->kind == FaultKind::Deadlock);
    // Device 0 waits until F1 is taken before it takes B0; device 1 the other way round.
    std::set<std::string> cycle;
    for (const WaitingTask& wait : fault->waits) {
      cycle.insert(to_text(wait.task));
      CHECK(fault->detail.find(to_text(wait.task)) != std::string::npos);
    }
    CHECK(cycle == std::set<std::string>{"device 0 compute: wait for F1 of stage 0",
                                         "device 0 send: transfer of F1 of stage 0",
                                         "device 1 compute: receive F1 of stage 0",
                                         "device 1 compute: wait for B0 of stage 1",
                                         "device 1 send: transfer of B0 of stage 1",
                                         "device 0 compute: receive B0 of stage 1"});
  }

  TEST_CASE("GPipe runs with blocking rendezvous in list order") {
    CHECK(std::holds_alternative<TaskGraph>(
        build_task_graph(lower(order_of(test::kGPipe, 4, 8), {SendPolicy::Rendezvous, {}}))));
  }

  TEST_CASE("an order with a backward before its forward deadlocks") {
    auto order = order_of(kDefaultSchedule, 2, 2);
    std::swap(order.devices[1][0], order.devices[1][1]);
    const auto times = uniform_durations({kDefaultSchedule, 2, 2}, {1, 2, 0});
    const auto simulated = simulate_order(order, times.view());
    const auto* fault = std::get_if<ProgramFault>(&simulated);
    REQUIRE(fault != nullptr);
    CHECK(fault->kind == FaultKind::Deadlock);
    REQUIRE(fault->waits.size() >= 2);
    for (const WaitingTask& wait : fault->waits) CHECK(wait.task.device == 1);
  }

  TEST_CASE("two ends of a channel that disagree are told") {
    auto order = order_of(test::kGPipe, 2, 3);
    std::swap(order.devices[1][0], order.devices[1][1]);
    const auto built = build_task_graph(lower(order));
    const auto* fault = std::get_if<ProgramFault>(&built);
    REQUIRE(fault != nullptr);
    CHECK(fault->kind == FaultKind::ChannelMismatch);
    CHECK(fault->detail ==
          "message 1 from device 0 to device 1 is not the same at both ends:\n"
          "  device 0 compute: send F0 of stage 0\n"
          "  device 1 receive: receive F1 of stage 0");
  }

  TEST_CASE("a message that nobody receives and a wait for nothing are told") {
    Program program = kPair;
    program.queues[2].order.clear();
    auto built = build_task_graph(program);
    REQUIRE(std::holds_alternative<ProgramFault>(built));
    CHECK(std::get<ProgramFault>(built).kind == FaultKind::ChannelMismatch);
    program = kPair;
    program.messages.push_back(program.messages[1]);
    program.instructions[program.queues[0].order[2]].subject = 2;
    built = build_task_graph(program);
    REQUIRE(std::holds_alternative<ProgramFault>(built));
    CHECK(std::get<ProgramFault>(built).kind == FaultKind::ChannelMismatch);
  }

  // Device 0 is busy 5, device 1 is busy 2; together they then run for 7.
  TEST_CASE("a gang is one task on several devices") {
    Program program;
    program.devices = 2;
    program.instructions = {{{0}, Opcode::Run, 1},
                            {{2}, Opcode::Run, 3, 0},
                            {{1}, Opcode::Run, 2},
                            {{2}, Opcode::Run, 3, 0},
                            {{1}, Opcode::Apply, 2}};
    program.queues = {{0, StreamKind::Compute, 0, {0, 1}}, {1, StreamKind::Compute, 0, {2, 3, 4}}};
    const auto graph = std::get<TaskGraph>(build_task_graph(program));
    CHECK(graph.tasks.size() == 4);
    TaskSimulator simulator;
    simulator.run(graph, std::vector<Ticks>{0, 5, 2, 7});
    CHECK(simulator.makespan() == 14);
  }

  // A receive buffer is free again when the piece that used it has ended: with one buffer, F1 may
  // be sent only when device 1 is done with F0 (at 1 + 4 + 10), with two it is sent at once.
  TEST_CASE("receive slots delay the sender") {
    const auto order = order_of(test::kGPipe, 2, 2);
    PipelineDurations times = uniform_durations({test::kGPipe, 2, 2}, {1, 1, 4});
    times.forward[1] = 10;
    const auto second_forward = [&](int slots) {
      const auto timeline = std::get<Timeline>(
          simulate_order(order, times.view(), {SendPolicy::Asynchronous, slots}));
      for (const TimelineEntry& entry : timeline.entries) {
        if (entry.device == 1 && entry.step == ComputeStep{0, 1, Phase::Forward})
          return entry.start;
      }
      return Ticks{-1};
    };
    CHECK(second_forward(1) == 1 + 4 + 10 + 4);
    CHECK(second_forward(2) == 1 + 4 + 10);
  }

  // Just-in-time blocking lists and asynchronous sends, tF = 1, tB = 3: our own independent
  // simulation of Alpa's runtime lists, two decimals.
  TEST_CASE("just-in-time lists against asynchronous sends") {
    struct Row {
      int p, m;
      Ticks transfer;  ///< in hundredths of tF
      Ticks just_in_time, asynchronous;
    };
    for (const Row& row :
         {Row{4, 16, 5, 7935, 7740}, Row{4, 16, 10, 8270, 7880}, Row{4, 16, 20, 8940, 8160},
          Row{4, 32, 10, 15310, 14520}, Row{4, 32, 20, 16620, 15040}, Row{8, 32, 10, 17070, 16280},
          Row{8, 64, 20, 33900, 30880}, Row{2, 16, 20, 7440, 7120}}) {
      const auto order = order_of(kDefaultSchedule, row.p, row.m);
      const auto times =
          uniform_durations({kDefaultSchedule, row.p, row.m}, {100, 300, row.transfer});
      CHECK(makespan_of(order, times.view(), {SendPolicy::JustInTime, {}}) == row.just_in_time);
      CHECK(makespan_of(order, times.view(), {}) == row.asynchronous);
    }
  }
}

TEST_SUITE("property") {
  TEST_CASE("no order deadlocks, and both ends of every channel name the same messages") {
    for (const ScheduleId schedule : {test::kGPipe, kDefaultSchedule, test::kInterleaved}) {
      for (int p = 1; p <= 8; ++p) {
        for (int m = 1; m <= 32; ++m) {
          for (int v = 1; v <= 4; ++v) {
            const auto made = make_order({schedule, p, m, v});
            const auto* order = std::get_if<ComputeOrder>(&made);
            if (order == nullptr) continue;
            const Program program = lower(*order);
            for (std::size_t c = 0; c < program.channels.size(); ++c) {
              const auto channel = static_cast<std::uint32_t>(c);
              REQUIRE(messages_at(program, channel, ChannelEnd::Send) ==
                      messages_at(program, channel, ChannelEnd::Receive));
            }
            REQUIRE(std::holds_alternative<TaskGraph>(build_task_graph(program)));
          }
        }
      }
    }
  }

  TEST_CASE("blocking is never faster than asynchronous, nor one slot than many") {
    Dice dice(21);
    for (int i = 0; i < 60; ++i) {
      const PipelineShape shape = random_shape(dice, 3);
      const auto order = std::get<ComputeOrder>(make_order(shape));
      const auto times = random_durations(dice, shape, 100);
      const Ticks free = makespan_of(order, times.view(), {});
      INFO(describe(shape));
      CHECK(makespan_of(order, times.view(), {SendPolicy::Blocking, {}}) >= free);
      CHECK(makespan_of(order, times.view(), {SendPolicy::Asynchronous, 1}) >= free);
      if (shape.chunks == 1) {
        CHECK(makespan_of(order, times.view(), {SendPolicy::JustInTime, {}}) >= free);
      }
    }
  }

  TEST_CASE("the same order gives the same program and graph") {
    const auto order = order_of(test::kInterleaved, 4, 8, 2);
    CHECK(lower(order) == lower(order));
    CHECK(build_task_graph(lower(order)) == build_task_graph(lower(order)));
  }
}

}  // namespace plansearch::testing::lowering_test
