// SPDX-License-Identifier: Apache-2.0
// Messages that share a link, against times added up by hand.
#include <doctest/doctest.h>

#include "pipeline_support.hpp"
#include "schedule/simulated_program.hpp"

namespace plansearch::testing {
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
    program.channels.push_back(
        {0, static_cast<int>(i) + 1, ChannelSemantics::Rendezvous, {}, {uses[i]}});
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

}  // namespace plansearch::testing
