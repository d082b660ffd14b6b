// SPDX-License-Identifier: Apache-2.0
// Messages that share a link, against times added up by hand.
#include <doctest/doctest.h>

#include "pipeline_support.hpp"
#include "schedule/simulation/simulated_program.hpp"
#include "schedule/table.hpp"
#include "support/rounds.hpp"

namespace plansearch::testing::shared_links_test {
namespace {

/// One sender, three receivers; a message to each, posted after a Run of its own on the sender.
/// Rows: 0 nothing, 1 to 3 the Runs, 4 to 6 the messages.
Program three_messages(const std::vector<ResourceUse>& uses) {
  Program program;
  program.devices = 4;
  program.resources = {{ResourceKind::NicOut, 0}, {ResourceKind::Link, 7}};
  program.queues.push_back({0, StreamKind::Compute, 0, {}});
  const auto emit = [&](std::size_t queue, Instruction instruction) {
    program.instructions.push_back(instruction);
    program.queues[queue].order.push_back(
        static_cast<InstructionId>(program.instructions.size() - 1));
  };
  for (std::uint32_t i = 0; i < 3; ++i) {
    const InstructionKey key{static_cast<int>(i)};
    program.channels.push_back({0, static_cast<int>(i) + 1, {}, {uses[i]}});
    Message message;
    message.key = key;
    message.channel = i;
    message.duration = 4 + i;
    program.messages.push_back(message);
    emit(0, {key, Opcode::Run, 1 + i, kNoId});
    emit(0, {key, Opcode::PostSend, 0, i});
    program.queues.push_back({static_cast<int>(i) + 1, StreamKind::Compute, 0, {}});
    emit(i + 1, {key, Opcode::Receive, 0, i});
  }
  return program;
}

std::vector<Ticks> arrivals(const Program& program, const std::vector<Ticks>& durations) {
  const auto simulated = simulate_program(program, durations);
  const auto& run = std::get<SimulatedProgram>(simulated);
  std::vector<Ticks> ends;
  for (const TaskId task : run.graph.transfer_of) ends.push_back(run.times.end(task));
  return ends;
}

/// A card per device and direction, as nodes of one device have them.
PipelineLinks cards_of(const ComputeOrder& order) {
  PipelineLinks links;
  const auto devices = static_cast<std::uint32_t>(order.devices.size());
  for (int d = 0; d < static_cast<int>(devices); ++d) {
    links.resources.push_back({ResourceKind::NicOut, d});
  }
  for (int d = 0; d < static_cast<int>(devices); ++d) {
    links.resources.push_back({ResourceKind::NicIn, d});
  }
  for (std::size_t k = 0; k + 1 < order.pipeline.size(); ++k) {
    const auto low = static_cast<std::uint32_t>(order.pipeline[k].device);
    const auto high = static_cast<std::uint32_t>(order.pipeline[k + 1].device);
    links.forward.push_back({{low, 1.0}, {devices + high, 1.0}});
    links.backward.push_back({{high, 1.0}, {devices + low, 1.0}});
  }
  return links;
}

/// Whether two messages are on one card at one time, every pair looked at.
bool some_meet(const Program& program, const TaskGraph& graph, const TaskSimulator& times) {
  for (MessageId a = 0; a < program.messages.size(); ++a) {
    for (MessageId b = 0; b < a; ++b) {
      const TaskId first = graph.transfer_of[a];
      const TaskId second = graph.transfer_of[b];
      const Ticks together = std::min(times.end(first), times.end(second)) -
                             std::max(times.start(first), times.start(second));
      if (together <= 0) continue;
      const Channel& one = program.channels[program.messages[a].channel];
      const Channel& other = program.channels[program.messages[b].channel];
      if (one.source == other.source || one.destination == other.destination) return true;
    }
  }
  return false;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("two sends on one card take twice as long") {
    const std::vector<ResourceUse> uses{{0, 1.0}, {0, 1.0}, {1, 1.0}};
    // Posted together at 0; the third has a link of its own.
    CHECK(arrivals(three_messages(uses), {0, 0, 0, 0, 10, 10, 10}) ==
          std::vector<Ticks>{20, 20, 10});
  }

  // To 6 the first is alone and has 4 left; both at half speed: the first ends at 6 + 8 = 14, when
  // the second has 10 - 4 = 6 left and is alone: 20.
  TEST_CASE("rates change when a message starts or ends") {
    const std::vector<ResourceUse> uses{{0, 1.0}, {0, 1.0}, {1, 1.0}};
    CHECK(arrivals(three_messages(uses), {0, 0, 6, 0, 10, 10, 0}) == std::vector<Ticks>{14, 20, 6});
  }

  // Three at a third: 30 each had they the same length. 3, 6 and 9 long: at 9 the first ends, the
  // others have 3 and 6 left at half speed: 15; then 3 left alone: 18.
  TEST_CASE("three on one card") {
    const std::vector<ResourceUse> uses{{0, 1.0}, {0, 1.0}, {0, 1.0}};
    CHECK(arrivals(three_messages(uses), {0, 0, 0, 0, 3, 6, 9}) == std::vector<Ticks>{9, 15, 18});
  }

  TEST_CASE("messages that need half a card each do not meet") {
    const std::vector<ResourceUse> uses{{0, 0.5}, {0, 0.5}, {1, 1.0}};
    CHECK(arrivals(three_messages(uses), {0, 0, 0, 0, 10, 12, 5}) == std::vector<Ticks>{10, 12, 5});
  }

  TEST_CASE("cards change a pipeline where messages meet on them, and nothing where none do") {
    Dice dice(37);
    PipelineSimulator fast;
    int apart = 0;
    int met = 0;
    for (int i = 0; i < test::rounds(300); ++i) {
      const PipelineShape shape = random_shape(dice, 2);
      if (shape.stages * shape.chunks * shape.micro_batches > 100) continue;
      const auto order = std::get<ComputeOrder>(make_order(shape));
      // Transfers are short in half of the cases.
      auto durations = random_durations(dice, shape, 100);
      for (auto* row : {&durations.activation_transfer, &durations.gradient_transfer}) {
        for (Ticks& time : *row) time /= i % 2 == 0 ? 20 : 1;
      }
      const auto table = duration_table(durations.view(), order.weight_gradients);
      const PipelineLinks links = cards_of(order);
      LoweringOptions options;
      options.links = &links;
      if (shape.transfers == TransferMode::Blocking) options.sends = SendPolicy::Blocking;
      const Program program = lower(order, options);
      const auto built = build_task_graph(program);
      const TaskGraph& graph = std::get<TaskGraph>(built);
      TaskSimulator alone, shared;
      alone.run(graph, table);
      shared.run(program, graph, table);
      bool same = true;
      for (TaskId task = 0; task < graph.tasks.size(); ++task) {
        CHECK(shared.end(task) >= alone.end(task));
        same =
            same && shared.start(task) == alone.start(task) && shared.end(task) == alone.end(task);
      }
      INFO(describe(shape));
      const bool meet = some_meet(program, graph, alone);
      CHECK(same == !meet);
      if (!meet) CHECK(shared.makespan() == fast.run(shape, durations.view()).makespan);
      ++(meet ? met : apart);
    }
    CHECK(apart > test::rounds(50));
    CHECK(met >= test::rounds(25));
  }

  TEST_CASE("links that nobody shares change nothing") {
    Dice dice(31);
    for (int i = 0; i < 50; ++i) {
      const PipelineShape shape = random_shape(dice, 3);
      const auto order = std::get<ComputeOrder>(make_order(shape));
      const auto times = random_durations(dice, shape, 100);
      PipelineLinks links;
      // A link per channel: a pair of devices and a direction.
      for (std::size_t k = 0; k + 1 < order.pipeline.size(); ++k) {
        const auto pair = static_cast<std::uint32_t>(order.pipeline[k].device);
        links.forward.push_back({{2 * pair, 1.0}});
        links.backward.push_back({{2 * pair + 1, 1.0}});
      }
      links.resources.resize(2 * order.devices.size());
      const auto end = [&](const LoweringOptions& options) {
        const auto done = simulate_program(lower(order, options),
                                           duration_table(times.view(), order.weight_gradients));
        return std::get<SimulatedProgram>(done).makespan();
      };
      INFO(describe(shape));
      CHECK(end({.links = &links}) == end({}));
    }
  }
}

}  // namespace plansearch::testing::shared_links_test
