// SPDX-License-Identifier: Apache-2.0
// Passes over just-in-time lists: what they gain in closed form, and that none makes anything
// slower, reorders a channel or takes memory that it does not state.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "pipeline_support.hpp"
#include "schedule/passes/edit.hpp"
#include "schedule/passes/pass.hpp"
#include "schedule/table.hpp"
#include "support/rounds.hpp"

namespace plansearch::testing::passes_test {
namespace {

PassSet set_of(const std::vector<std::string_view>& names) {
  PassSet set = 0;
  for (std::size_t i = 0; i < program_passes().size(); ++i) {
    const bool in = std::count(names.begin(), names.end(), program_passes()[i].name) > 0;
    if (in) set |= PassSet{1} << i;
  }
  return set;
}

PassedProgram passed(const Program& program, PassSet passes, const std::vector<Ticks>& durations,
                     const PassOptions& options = {}) {
  auto result = apply_passes(program, passes, durations, options);
  if (const auto* fault = std::get_if<ProgramFault>(&result)) FAIL(fault->detail);
  return std::get<PassedProgram>(std::move(result));
}

Ticks after_passes(std::string_view schedule, int p, int m, UniformTimes times, PassSet passes,
                   int slots = 1) {
  const PipelineShape shape{*find_schedule(schedule), p, m};
  const auto order = std::get<ComputeOrder>(make_order(shape));
  const auto durations =
      duration_table(uniform_durations(shape, times).view(), order.weight_gradients);
  return passed(lower(order, {.sends = SendPolicy::JustInTime}), passes, durations, {slots})
      .simulated.makespan();
}

/// The messages of a channel that are received or on their way and not yet read, at most, by the
/// times of the simulation: what its buffers must hold.
int most_in_use(const SimulatedProgram& run, const std::vector<MessageId>& messages,
                const std::vector<MessageSites>& sites) {
  std::vector<std::pair<Ticks, int>> changes;
  for (const MessageId id : messages) {
    changes.emplace_back(run.times.end_of(run.graph, sites[id].receive), 1);
    changes.emplace_back(run.times.end_of(run.graph, run.program.messages[id].consumer), -1);
  }
  std::sort(changes.begin(), changes.end());
  int now = 0, most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, now += change);
  return most;
}

struct RandomProgram {
  Program program;
  std::vector<Ticks> durations;
};

/// Just-in-time or blocking lists of a random pipeline, with bytes and the end of a step.
RandomProgram random_program(Dice& dice) {
  PipelineShape shape = random_shape(dice, 2);
  shape.stages = std::min(shape.stages, 6);
  if (shape.chunks > 1) shape.micro_batches = shape.stages * dice.between(1, 2);
  const auto order = std::get<ComputeOrder>(make_order(shape));
  const auto times = random_durations(dice, shape, 60);
  PipelineBytes bytes;
  for (int k = 0; k < shape.virtual_stages(); ++k) bytes.saved.emplace_back(dice.between(1, 9));
  for (int k = 0; k + 1 < shape.virtual_stages(); ++k) {
    bytes.activation.emplace_back(dice.between(1, 3));
    bytes.gradient.emplace_back(dice.between(1, 3));
  }
  StepEnd end;
  end.together = dice.between(0, 1) == 0;
  end.reductions =
      dice.between(0, 1) == 0 ? ReductionTime::WithLastBackward : ReductionTime::AfterPipeline;
  std::vector<StepEndTicks> ends;
  for (int d = 0; d < shape.stages; ++d) ends.push_back({dice.ticks(0, 200), 0, dice.ticks(0, 50)});
  // In the sequence of the order alone neighbours may wait for each other.
  LoweringOptions options{.sends = SendPolicy::JustInTime, .bytes = &bytes, .end = &end};
  if (dice.between(0, 3) == 0) options.sends = SendPolicy::Blocking;
  return {lower(order, options), duration_table(times.view(), order.weight_gradients, ends)};
}

InstructionId emit_to(Program& program, std::size_t queue, Opcode opcode, std::uint32_t row,
                      std::uint32_t subject) {
  const auto id = static_cast<InstructionId>(program.instructions.size());
  program.instructions.push_back({InstructionKey{static_cast<int>(queue)}, opcode, row, subject});
  program.queues[queue].order.push_back(id);
  return id;
}

/// Two devices run 2 ticks, send each other a message (4 ticks from 0, 10 from 1), and run 1 tick.
/// Device 0 sends first; `crossed`: so does device 1.
RandomProgram exchange(bool crossed) {
  RandomProgram made;
  made.durations = {0, 2, 1, 4, 10};
  Program& program = made.program;
  program.devices = 2;
  for (std::uint32_t d = 0; d < 2; ++d) {
    program.queues.push_back({static_cast<int>(d), StreamKind::Compute, 0, {}});
    program.channels.push_back({static_cast<int>(d), static_cast<int>(1 - d), {}, {}});
    program.messages.emplace_back();
    program.messages[d].channel = d;
    program.messages[d].duration = 3 + d;
  }
  for (std::uint32_t d = 0; d < 2; ++d) {
    program.messages[d].producer = emit_to(program, d, Opcode::Run, 1, kNoId);
    const bool sends_first = d == 0 || crossed;
    if (sends_first) emit_to(program, d, Opcode::Send, 0, d);
    emit_to(program, d, Opcode::Receive, 0, 1 - d);
    if (!sends_first) emit_to(program, d, Opcode::Send, 0, d);
    program.messages[1 - d].consumer = emit_to(program, d, Opcode::Run, 2, kNoId);
  }
  return made;
}

const ProgramPass& pass_named(std::string_view name) {
  const auto& passes = program_passes();
  return *std::find_if(passes.begin(), passes.end(),
                       [&](const ProgramPass& pass) { return pass.name == name; });
}

/// A card out and one in per device, for all its messages.
PipelineLinks cards_of(int devices) {
  PipelineLinks links;
  for (int d = 0; d < devices; ++d) {
    links.resources.push_back({ResourceKind::NicOut, d});
    links.resources.push_back({ResourceKind::NicIn, d});
  }
  for (std::uint32_t k = 0; k + 1 < static_cast<std::uint32_t>(devices); ++k) {
    links.forward.push_back({{2 * k, 1.0}, {2 * k + 3, 1.0}});
    links.backward.push_back({{2 * k + 2, 1.0}, {2 * k + 1, 1.0}});
  }
  return links;
}

/// Device 0 runs 2, 2 and 20 ticks; the first Run makes a message of 10 that it posts last, for
/// device 2 (1 tick), the second one of 4 that it posts at once, for device 1 (30 ticks). Both
/// leave by one card.
RandomProgram urgent_and_long() {
  RandomProgram made;
  made.durations = {0, 2, 2, 20, 30, 1, 4, 10};
  Program& program = made.program;
  program.devices = 3;
  program.resources = {{ResourceKind::NicOut, 0}};
  for (int d = 0; d < 3; ++d) program.queues.push_back({d, StreamKind::Compute, 0, {}});
  const auto emit = [&](std::size_t queue, Opcode opcode, std::uint32_t row, std::uint32_t of) {
    return emit_to(program, queue, opcode, row, of);
  };
  const InstructionId makes_long = emit(0, Opcode::Run, 1, kNoId);
  const InstructionId makes_urgent = emit(0, Opcode::Run, 2, kNoId);
  emit(0, Opcode::PostSend, 0, 0);
  emit(0, Opcode::Run, 3, kNoId);
  emit(0, Opcode::PostSend, 0, 1);
  const InstructionId producers[] = {makes_urgent, makes_long};
  for (std::uint32_t i = 0; i < 2; ++i) {
    program.channels.push_back({0, static_cast<int>(i) + 1, {}, {{0, 1.0}}});
    Message message;
    message.channel = i;
    message.duration = 6 + i;
    message.producer = producers[i];
    emit(1 + i, Opcode::Receive, 0, i);
    message.consumer = emit(1 + i, Opcode::Run, 4 + i, kNoId);
    program.messages.push_back(message);
  }
  return made;
}

}  // namespace

TEST_SUITE("unit") {
  // Stages of F = 100, B = 300, messages of c; T0 = (m + p - 1)(F + B). Blocking lists take
  // T0 + c (4 m + k), k = 3, 19 for p = 4, 8, and T0 + 2 c m for p = 2; asynchronous ones T0 + 2 c
  // ((p - 1) m / p + p - 2) under 1F1B and T0 + 2 c (p - 1) under eager 1F1B (own simulation; the
  // rows of lowering_test.cpp).
  TEST_CASE("all passes turn blocking lists into the closed form of asynchronous sends") {
    for (const int p : {2, 4, 8}) {
      const Ticks extra = p == 2 ? 0 : p == 4 ? 3 : 19;
      for (const int m : {2 * p, 4 * p, 8 * p}) {
        for (const Ticks c : {5, 20, 100}) {
          INFO("p ", p, " m ", m, " c ", c);
          const Ticks t0 = (m + p - 1) * 400;
          CHECK(after_passes("1f1b", p, m, {100, 300, c}, 0) ==
                t0 + c * ((p == 2 ? 2 : 4) * m + extra));
          const Ticks async = t0 + 2 * c * ((p - 1) * m / p + p - 2);
          CHECK(after_passes("1f1b", p, m, {100, 300, c}, all_passes()) == async);
        }
      }
    }
  }
  TEST_CASE("two receive buffers more are enough for eager 1F1B") {
    for (const int p : {2, 4, 8}) {
      const int m = 4 * p;
      const Ticks t0 = (m + p - 1) * 400;
      CHECK(after_passes("eager-1f1b", p, m, {100, 300, 20}, all_passes(), 2) ==
            t0 + 2 * 20 * (p - 1));
    }
  }

  TEST_CASE("free messages leave passes nothing to gain") {
    const UniformTimes times{100, 300, 0};
    for (PassSet set = 0; set <= all_passes(); ++set) {
      REQUIRE(after_passes("1f1b", 4, 8, times, set) == (8 + 3) * 400);
    }
  }

  // Two stages, one micro-batch, F 2, B 3, c 1, reductions 10 and 20. Blocking: F0 2, send 3, F1 5,
  // B1 8, its reduction 28, the gradient 29, B0 32, reduction 42. Beside: gradient 9, B0 12, 22;
  // the other reduction 28.
  TEST_CASE("a reduction inside the last backward holds up the stages before") {
    const PipelineShape shape{*find_schedule("1f1b"), 2, 1};
    const auto order = std::get<ComputeOrder>(make_order(shape));
    StepEnd end;
    end.reductions = ReductionTime::WithLastBackward;
    const std::vector<StepEndTicks> ends{{10, 0, 0}, {20, 0, 0}};
    const auto durations =
        duration_table(uniform_durations(shape, {2, 3, 1}).view(), order.weight_gradients, ends);
    const Program program = lower(order, {.sends = SendPolicy::JustInTime, .end = &end});
    CHECK(passed(program, 0, durations).simulated.makespan() == 42);
    const auto overlapped = passed(program, set_of({"overlap-reductions"}), durations);
    CHECK(overlapped.simulated.makespan() == 28);
    REQUIRE(overlapped.outcomes.size() == 1);
    CHECK(overlapped.outcomes[0].moved == 2);
    CHECK(overlapped.outcomes[0].before == 42);
    CHECK(overlapped.outcomes[0].after == 28);
  }

  // As listed: 0 to 1 from 2 to 6, 1 to 0 from 6 to 16, end 17. In groups: both from 2, the longer
  // one until 12, and both devices go on then: 13. Where both send first they wait for each other.
  TEST_CASE("messages of a group travel at the same time and are awaited together") {
    const RandomProgram made = exchange(false);
    const auto grouped = passed(made.program, set_of({"group-transfers"}), made.durations);
    REQUIRE(grouped.outcomes.size() == 1);
    CHECK(grouped.outcomes[0].moved == 4);
    CHECK(grouped.outcomes[0].before == 17);
    CHECK(grouped.outcomes[0].after == 13);
    for (const Queue& queue : grouped.simulated.program.queues) {
      const TaskId last = grouped.simulated.graph.task_of[queue.order.back()];
      CHECK(grouped.simulated.times.start(last) == 12);  // also where the message came at 6
    }
    const RandomProgram crossed = exchange(true);
    const auto stuck = simulate_program(Program(crossed.program), crossed.durations);
    REQUIRE(std::holds_alternative<ProgramFault>(stuck));
    CHECK(std::get<ProgramFault>(stuck).kind == FaultKind::Deadlock);
    PassResult run = pass_named("group-transfers").run(crossed.program, {});
    const auto freed = simulate_program(std::move(run.program), crossed.durations);
    CHECK(std::get<SimulatedProgram>(freed).makespan() == 13);
  }
  // 1F1B, two stages and micro-batches, F 2, B 3, c 1. F0 2, sent 3, F1 5; stage 1: F0 5, B0 8. The
  // second activation and the first gradient cross as groups from 8 to 9: stage 0 B0 12, stage 1 F1
  // 11, B1 14, gradient 15, B1 18.
  TEST_CASE("neighbours that send to each other deadlock without groups and not with them") {
    const PipelineShape shape{*find_schedule("1f1b"), 2, 2};
    const auto order = std::get<ComputeOrder>(make_order(shape));
    const auto durations =
        duration_table(uniform_durations(shape, {2, 3, 1}).view(), order.weight_gradients);
    const Program program = lower(order, {.sends = SendPolicy::Rendezvous});
    CHECK(std::holds_alternative<ProgramFault>(simulate_program(Program(program), durations)));
    PassResult run = pass_named("group-transfers").run(program, {});
    CHECK(run.moved == 4);
    const auto freed = simulate_program(std::move(run.program), durations);
    REQUIRE(std::holds_alternative<SimulatedProgram>(freed));
    CHECK(std::get<SimulatedProgram>(freed).makespan() == 18);
  }

  // What a rank sends forward stands in one group with what comes back from there, what it sends
  // back in another with what comes in: a card has one message in each direction at a time. Where
  // receives are posted ahead instead, both directions meet on it.
  TEST_CASE("sends grouped with receives do not meet on a network card") {
    for (const int p : {2, 4, 8}) {
      for (const Ticks c : {5, 20, 30}) {
        INFO("p ", p, " c ", c);
        const PipelineShape shape{*find_schedule("1f1b"), p, 4 * p};
        const auto order = std::get<ComputeOrder>(make_order(shape));
        const auto durations =
            duration_table(uniform_durations(shape, {6, 12, c}).view(), order.weight_gradients);
        const PipelineLinks cards = cards_of(p);
        const auto end = [&](SendPolicy sends, const PipelineLinks* links) {
          Program program = lower(order, {.sends = sends, .links = links});
          if (sends == SendPolicy::Rendezvous) {
            program = pass_named("group-transfers").run(std::move(program), {}).program;
          }
          const auto run = simulate_program(std::move(program), durations);
          return std::get<SimulatedProgram>(run).makespan();
        };
        const Ticks alone = end(SendPolicy::Rendezvous, nullptr);
        CHECK(end(SendPolicy::Rendezvous, &cards) == alone);
        CHECK(end(SendPolicy::Blocking, nullptr) == alone);
        if (p == 8 && c == 30) CHECK(end(SendPolicy::Blocking, &cards) > alone);
      }
    }
  }

  // As listed: the urgent message goes from 4 to 8, its reader from 8 to 38; the long one from 24
  // to 34. Sent as soon as it is made, at 2, the long one has 8 left at 4; both at half speed: the
  // urgent one ends at 12, its reader at 42.
  TEST_CASE("a pass that makes an urgent message late is given up") {
    const RandomProgram made = urgent_and_long();
    PassResult alone = pass_named("early-sends").run(made.program, {});
    CHECK(alone.moved == 1);
    const auto slower = simulate_program(std::move(alone.program), made.durations);
    CHECK(std::get<SimulatedProgram>(slower).makespan() == 42);
    const PassedProgram result = passed(made.program, set_of({"early-sends"}), made.durations);
    REQUIRE(result.outcomes.size() == 1);
    CHECK_FALSE(result.outcomes[0].kept);
    CHECK(result.outcomes[0].before == 38);
    CHECK(result.outcomes[0].after == 38);
    CHECK(result.simulated.makespan() == 38);
  }

  TEST_CASE("a pass that would lengthen the step is not kept") {
    // Two sends of one card that were apart meet when both are early; the long one is urgent.
    const PipelineShape shape{*find_schedule("1f1b"), 3, 6};
    const auto order = std::get<ComputeOrder>(make_order(shape));
    const auto durations =
        duration_table(uniform_durations(shape, {10, 20, 9}).view(), order.weight_gradients);
    PipelineLinks links;
    links.resources = {{ResourceKind::Link, 0}};
    links.forward.assign(2, {{0, 1.0}});
    links.backward.assign(2, {{0, 1.0}});
    const Program program = lower(order, {.sends = SendPolicy::JustInTime, .links = &links});
    for (PassSet set = 0; set <= all_passes(); ++set) {
      for (const PassOutcome& outcome : passed(program, set, durations).outcomes) {
        REQUIRE(outcome.after <= outcome.before);
      }
    }
  }
}

TEST_SUITE("property") {
  TEST_CASE("no subset of passes makes a pipeline slower, reorders or takes unstated memory") {
    Dice dice(51);
    for (int i = 0; i < 80; ++i) {
      const RandomProgram random = random_program(dice);
      const PassOptions options{dice.between(0, 3)};
      const Ticks before = passed(random.program, 0, random.durations).simulated.makespan();
      const auto base = sent_by_channel(random.program);
      auto held = peak_bytes(passed(random.program, 0, random.durations).simulated);
      // The one buffer at each end of a channel, which the lists fill one after the other.
      for (const Message& message : random.program.messages) {
        if (message.key.micro_batch > 0) continue;
        for (const BufferId buffer : {message.arriving, message.leaving}) {
          if (buffer == kNoId) continue;
          held[static_cast<std::size_t>(random.program.buffers[buffer].device)] +=
              random.program.buffers[buffer].bytes;
        }
      }
      for (PassSet set = 1; set <= all_passes(); ++set) {
        INFO("pipeline ", i, " set ", set, " slots ", options.slots);
        const PassedProgram result = passed(random.program, set, random.durations, options);
        const SimulatedProgram& run = result.simulated;
        REQUIRE(run.makespan() <= before);
        std::vector<Bytes> stated(held.size());
        for (const PassOutcome& outcome : result.outcomes) {
          REQUIRE(outcome.kept);  // on channels of its own none is ever given up
          for (std::size_t d = 0; d < outcome.slots.size(); ++d) stated[d] += outcome.slots[d];
        }
        // Both tensors of a channel keep their order, also where they get channels of their own.
        const auto sent = sent_by_channel(run.program);
        for (const auto& messages : sent) {
          const MessageId any = messages.empty() ? 0 : messages.front();
          auto order = base[messages.empty() ? 0 : random.program.messages[any].channel];
          if (messages.size() < order.size()) {
            std::erase_if(order, [&](MessageId id) {
              return random.program.messages[id].tensor != random.program.messages[any].tensor;
            });
          }
          if (!messages.empty()) REQUIRE(messages == order);
        }
        const auto peaks = peak_bytes(run);
        for (std::size_t d = 0; d < held.size(); ++d) {
          REQUIRE(peaks[d].value() <= (held[d] + stated[d]).value());
        }
      }
    }
  }

  TEST_CASE("what is given up is tried again after the others, and kept only if it helps") {
    Dice dice(54);
    int kept_later = 0;
    for (int i = 0; i < test::rounds(200); ++i) {
      INFO("pipeline ", i);
      const int p = dice.between(3, 6), m = dice.between(4, 12);
      const PipelineShape shape{*find_schedule("1f1b"), p, m};
      const auto order = std::get<ComputeOrder>(make_order(shape));
      const auto durations =
          duration_table(random_durations(dice, shape, 30).view(), order.weight_gradients);
      const auto boundaries = static_cast<std::size_t>(p - 1);
      PipelineLinks links;
      links.resources = {{ResourceKind::Link, 0}};
      links.forward.assign(boundaries, {{0, 1.0}});
      links.backward.assign(boundaries, {{0, 1.0}});
      const Program program = lower(order, {.sends = SendPolicy::JustInTime, .links = &links});
      const PassedProgram result = passed(program, all_passes(), durations);
      REQUIRE(result.outcomes.size() == program_passes().size());
      Ticks now = passed(program, 0, durations).simulated.makespan();
      const ProgramPass* last = nullptr;
      for (const PassOutcome& outcome : result.outcomes) {
        REQUIRE(outcome.before == now);
        REQUIRE(outcome.after <= outcome.before);
        now = outcome.after;
        if (outcome.kept && last != nullptr && outcome.pass < last) ++kept_later;
        last = outcome.pass;
      }
      REQUIRE(result.simulated.makespan() == now);
    }
    CHECK(kept_later > 0);
  }

  // A queue takes and gives back in its own order, whatever the times: no buffer is to spare here.
  TEST_CASE("groups take the memory that they state") {
    Dice dice(53);
    int grown = 0;
    for (int i = 0; i < test::rounds(200); ++i) {
      INFO("pipeline ", i);
      const RandomProgram random = random_program(dice);
      const auto before = peak_bytes(passed(random.program, 0, random.durations).simulated);
      const auto grouped = passed(random.program, set_of({"group-transfers"}), random.durations);
      const auto after = peak_bytes(grouped.simulated);
      const auto& stated = grouped.outcomes.front().slots;
      for (std::size_t d = 0; d < before.size(); ++d) {
        REQUIRE(after[d].value() <= (before[d] + stated[d]).value());
        if (after[d] > before[d]) ++grown;
      }
    }
    CHECK(grown > 0);
  }

  TEST_CASE("early receives fill the buffers that they state, and no more") {
    Dice dice(52);
    for (int i = 0; i < 60; ++i) {
      const int p = dice.between(2, 5), m = dice.between(6, 14), slots = dice.between(0, 3);
      const PipelineShape shape{*find_schedule("1f1b"), p, m};
      const auto order = std::get<ComputeOrder>(make_order(shape));
      const auto durations = duration_table(
          uniform_durations(shape, {10, 30, dice.ticks(1, 10)}).view(), order.weight_gradients);
      const Program program = lower(order, {.sends = SendPolicy::JustInTime});
      for (const auto& passes :
           {set_of({"split-waits", "early-receives"}),
            set_of({"split-waits", "separate-streams", "early-sends", "early-receives"})}) {
        const auto result = passed(program, passes, durations, {slots});
        const auto sites = sites_of(result.simulated.program);
        for (const auto& messages : sent_by_channel(result.simulated.program)) {
          CHECK(most_in_use(result.simulated, messages, sites) == 1 + slots);
        }
      }
    }
  }
}

}  // namespace plansearch::testing::passes_test
