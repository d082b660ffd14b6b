// SPDX-License-Identifier: Apache-2.0
// Computes:   nothing; lists the passes and applies a choice of them.
// Source:     the files of this folder.
// Assumes:    passes are applied in the order of the table, each at most once.
// Units:      ticks.
// Checked by: tests/unit/schedule/passes_test.cpp
#include "plansearch/stop_token.hpp"
#include "schedule/passes/pass.hpp"

namespace plansearch {

// Kindred ones are made in one file.
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

namespace {

/// The program as it stands between two passes.
class Rewriting {
 public:
  Rewriting(SimulatedProgram simulated, std::span<const Ticks> durations,
            const PassOptions& options)
      : simulated_(std::move(simulated)),
        durations_(durations),
        options_(options),
        peaks_(peak_bytes(simulated_)) {}

  PassOutcome apply(const ProgramPass& pass) {
    check_stop();
    PassResult passed = pass.run(simulated_.program, options_);
    PassOutcome outcome;
    outcome.pass = &pass;
    outcome.moved = passed.moved;
    outcome.before = outcome.after = simulated_.makespan();
    outcome.slots = std::move(passed.slots);
    outcome.peaks.resize(static_cast<std::size_t>(passed.program.devices));
    if (passed.moved == 0) return outcome;
    auto simulated = simulate_program(std::move(passed.program), durations_);
    auto* run = std::get_if<SimulatedProgram>(&simulated);
    outcome.kept = run != nullptr && run->makespan() <= outcome.before;
    if (!outcome.kept) return outcome;
    outcome.after = run->makespan();
    std::vector<Bytes> held = peak_bytes(*run);
    for (std::size_t d = 0; d < held.size(); ++d) outcome.peaks[d] = held[d] - peaks_[d];
    peaks_ = std::move(held);
    simulated_ = std::move(*run);
    return outcome;
  }

  [[nodiscard]] SimulatedProgram take() { return std::move(simulated_); }

 private:
  SimulatedProgram simulated_;
  std::span<const Ticks> durations_;
  PassOptions options_;
  std::vector<Bytes> peaks_;
};

}  // namespace

std::variant<PassedProgram, ProgramFault> apply_passes(Program program, PassSet passes,
                                                       std::span<const Ticks> durations,
                                                       const PassOptions& options) {
  auto first = simulate_program(std::move(program), durations);
  if (auto* fault = std::get_if<ProgramFault>(&first)) return std::move(*fault);
  return apply_passes(std::get<SimulatedProgram>(std::move(first)), passes, durations, options);
}

PassedProgram apply_passes(SimulatedProgram simulated, PassSet passes,
                           std::span<const Ticks> durations, const PassOptions& options) {
  Rewriting rewriting(std::move(simulated), durations, options);
  PassedProgram result;
  std::vector<PassOutcome> given_up;
  for (std::size_t i = 0; i < program_passes().size(); ++i) {
    if ((passes >> i & 1U) == 0) continue;
    PassOutcome outcome = rewriting.apply(program_passes()[i]);
    (outcome.kept ? result.outcomes : given_up).push_back(std::move(outcome));
  }
  for (const PassOutcome& once : given_up) result.outcomes.push_back(rewriting.apply(*once.pass));
  result.simulated = rewriting.take();
  return result;
}

}  // namespace plansearch
