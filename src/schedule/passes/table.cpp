// SPDX-License-Identifier: Apache-2.0
// Computes:   nothing; lists the passes and applies a choice of them.
// Source:     the files of this folder.
// Assumes:    passes are applied in the order of the table, each at most once.
// Units:      ticks.
// Checked by: tests/unit/schedule/passes_test.cpp
#include "schedule/passes/pass.hpp"

namespace plansearch {

// Each is made in <name>.cpp.
ProgramPass overlap_reductions_pass();
ProgramPass group_transfers_pass();
ProgramPass split_waits_pass();
ProgramPass separate_streams_pass();
ProgramPass early_sends_pass();
ProgramPass early_receives_pass();
ProgramPass late_waits_pass();
ProgramPass drop_implied_waits_pass();

const std::vector<ProgramPass>& program_passes() {
  static const std::vector<ProgramPass> kPasses{
      overlap_reductions_pass(), group_transfers_pass(),   split_waits_pass(),
      separate_streams_pass(),   early_sends_pass(),       early_receives_pass(),
      late_waits_pass(),         drop_implied_waits_pass()};
  return kPasses;
}

PassSet all_passes() {
  return (PassSet{1} << program_passes().size()) - 1;
}

std::variant<PassedProgram, ProgramFault> apply_passes(Program program, PassSet passes,
                                                       std::span<const Ticks> durations,
                                                       const PassOptions& options) {
  auto first = simulate_program(std::move(program), durations);
  if (auto* fault = std::get_if<ProgramFault>(&first)) return std::move(*fault);
  PassedProgram result{std::get<SimulatedProgram>(std::move(first)), {}};
  std::vector<Bytes> peaks = peak_bytes(result.simulated);
  for (std::size_t i = 0; i < program_passes().size(); ++i) {
    if ((passes >> i & 1U) == 0) continue;
    const ProgramPass& pass = program_passes()[i];
    PassResult passed = pass.run(result.simulated.program, options);
    PassOutcome outcome;
    outcome.pass = &pass;
    outcome.moved = passed.moved;
    outcome.before = outcome.after = result.simulated.makespan();
    outcome.slots = std::move(passed.slots);
    outcome.peaks.resize(static_cast<std::size_t>(passed.program.devices));
    if (passed.moved > 0) {
      auto simulated = simulate_program(std::move(passed.program), durations);
      auto* run = std::get_if<SimulatedProgram>(&simulated);
      outcome.kept = run != nullptr && run->makespan() <= outcome.before;
      if (outcome.kept) {
        outcome.after = run->makespan();
        std::vector<Bytes> held = peak_bytes(*run);
        for (std::size_t d = 0; d < held.size(); ++d) outcome.peaks[d] = held[d] - peaks[d];
        peaks = std::move(held);
        result.simulated = std::move(*run);
      }
    }
    result.outcomes.push_back(std::move(outcome));
  }
  return result;
}

}  // namespace plansearch
