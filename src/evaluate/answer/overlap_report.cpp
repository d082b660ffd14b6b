// SPDX-License-Identifier: Apache-2.0
// Computes: which message of a block runs under which kernels, for how long, and what is exposed.
// Source: the block's own program (block_program.hpp), the second of three copies.
// Assumes: the copy in the middle stands for all others of its kind.
// Units: seconds per micro-batch and copy of the block.
// Checked by: tests/unit/evaluate/overlap_report_test.cpp
#include "evaluate/answer/plan_details.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "evaluate/block/phase_message.hpp"
#include "evaluate/step/plan_invariants.hpp"
#include "evaluate/step/step_model.hpp"

namespace plansearch {
namespace {

constexpr int kCopies = 3;
constexpr int kMiddle = 1;

std::string kernels_name(const Block& block, const IssuedWork& kernels) {
  const std::string& first = block.operators[kernels.first].name;
  const std::string& last = block.operators[kernels.last].name;
  return first == last ? first : fmt::format("{} to {}", first, last);
}

/// The kernels that run longest beside a message.
std::string beside(const Block& block, const BlockProgram& program,
                   const std::vector<StreamSlice>& slices, const StreamSlice& message) {
  std::map<std::string, double> together;
  for (const StreamSlice& slice : slices) {
    if (program.issued[slice.instruction].message != nullptr) continue;
    const double shared = std::min(slice.end, message.end) - std::max(slice.start, message.start);
    if (shared <= 0.0) continue;
    together[kernels_name(block, program.issued[slice.instruction])] += shared;
  }
  const auto longest =
      std::max_element(together.begin(), together.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return longest == together.end() ? std::string() : longest->first;
}

void append_pass(const Block& block, const BlockProgram& program, const ConcurrencyRates& rates,
                 ParameterUnit unit, HiddenMessage line, std::vector<HiddenMessage>& lines) {
  StreamSimulator simulator(rates);
  std::vector<StreamSlice> slices;
  StreamRun run;
  SteadyRun steady;
  simulator.run(program.streams, kCopies, run, &slices);
  simulator.steady(program.streams, steady);
  std::vector<StreamSlice> own;
  for (const StreamSlice& slice : slices) {
    const bool message = program.issued[slice.instruction].message != nullptr;
    if (message && slice.copy == kMiddle) own.push_back(slice);
  }
  std::stable_sort(own.begin(), own.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  for (const StreamSlice& slice : own) {
    const PhaseMessage& message = *program.issued[slice.instruction].message;
    line.what = message_name(block, message.communication, unit);
    line.kind = message.communication.kind;
    line.repeated = program.issued[slice.instruction].repeated;
    line.time = message.time * static_cast<double>(message.communication.count);
    line.exposed = Seconds(steady.steady.exposed[slice.instruction]);
    line.under = beside(block, program, slices, slice);
    lines.push_back(line);
  }
}

std::string slice_name(const Block& block, const IssuedWork& issued, ParameterUnit unit) {
  const Communication& c = issued.message->communication;
  return fmt::format("{}{} {}", issued.repeated ? "again " : "", to_text(c.kind),
                     message_name(block, c, unit));
}

BlockTimeline timeline_of(const Block& block, const BlockProgram& program,
                          const ConcurrencyRates& rates, ParameterUnit unit) {
  constexpr int kDrawn = 2;
  StreamRun run;
  std::vector<StreamSlice> slices;
  StreamSimulator(rates).run(program.streams, kDrawn, run, &slices);
  BlockTimeline timeline;
  timeline.streams.assign(static_cast<std::size_t>(program.streams.streams), "kernels");
  for (const StreamSlice& slice : slices) {
    const IssuedWork& issued = program.issued[slice.instruction];
    const int stream = program.streams.instructions[slice.instruction].stream;
    const bool message = issued.message != nullptr;
    if (message) {
      const Communication& c = issued.message->communication;
      timeline.streams[static_cast<std::size_t>(stream)] = fmt::format(
          "{} over {}", c.subject == Subject::Parameter ? "weights" : "messages", to_text(c.axes));
    }
    timeline.slices.push_back(
        {message ? slice_name(block, issued, unit) : kernels_name(block, issued), stream, message,
         Seconds(slice.start), Seconds(slice.end)});
  }
  return timeline;
}

/// Calls visit(block, copies, pass, its name) for what is simulated on streams at one position.
template <typename Visit>
void for_each_simulated(const ProfileMaker& profiles, const PricingInput& view, int position,
                        Visit visit) {
  for_each_transform_at(view, position, [&](int number) {
    const ClassProfile& profile =
        *view.invariants.transforms[static_cast<std::size_t>(number)].profile;
    const std::vector<double> copies = copies_at(view, position, number);
    for (std::size_t b = 0; b < copies.size(); ++b) {
      if (copies[b] <= 0.0 || !profiles.posts_ahead(profile, b)) continue;
      for (const auto& [pass, name] :
           {std::pair{BlockPass::Forward, "forward"}, {BlockPass::Backward, "backward"}}) {
        visit(view.problem.network->blocks[b], copies[b], profiles.program(profile, b, pass), name);
      }
    }
  });
}

}  // namespace

std::vector<HiddenMessage> hidden_at(const ProfileMaker& profiles, const PricingInput& view,
                                     int position) {
  std::vector<HiddenMessage> lines;
  for_each_simulated(
      profiles, view, position,
      [&](const Block& block, double copies, const BlockProgram& program, const char* pass) {
        HiddenMessage line;
        line.block = block.name;
        line.copies = copies;
        line.pass = pass;
        append_pass(block, program, profiles.rates(), view.problem.framework->sharding.unit, line,
                    lines);
      });
  return lines;
}

std::vector<BlockTimeline> timelines_at(const ProfileMaker& profiles, const PricingInput& view,
                                        int position) {
  std::vector<BlockTimeline> timelines;
  for_each_simulated(
      profiles, view, position,
      [&](const Block& block, double, const BlockProgram& program, const char* pass) {
        timelines.push_back(
            timeline_of(block, program, profiles.rates(), view.problem.framework->sharding.unit));
        timelines.back().name = fmt::format("{}, {}", block.name, pass);
      });
  return timelines;
}

std::shared_ptr<const PricedProgram> program_of(const PlanEvaluator& evaluator,
                                                const ParallelPlan& plan,
                                                const ProgramRequest& request) {
  const auto workspace = PlanEvaluator::make_workspace();
  return evaluator.views().with_view(plan, [&](const PricingInput& view) {
    auto program = std::make_shared<PricedProgram>(priced_program(view, request, *workspace));
    const int busiest = step_time(view, MakespanMethod::Simulation, *workspace).busiest;
    program->blocks = timelines_at(*evaluator.views().profiles, view, busiest);
    return std::shared_ptr<const PricedProgram>(std::move(program));
  });
}

}  // namespace plansearch
