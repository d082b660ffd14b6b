// SPDX-License-Identifier: Apache-2.0
// Passes over programs: each is a pure function in a file of its own and a row of the table.
//
// With channels that share no link none of them makes a program slower: what they do is to take
// constraints away. Where links are shared, apply_passes keeps a pass only if the step does not
// grow; what it gives up it tries once more after the others. No pass changes the order of the
// messages of a channel. A later pass may take apart what an earlier one put together (groups,
// where posts get streams of their own).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "schedule/simulation/simulated_program.hpp"

namespace plansearch {

struct PassOptions {
  /// Messages that a channel may hold beyond the one in use, and send beyond the one being made.
  int slots = 1;
};

struct PassResult {
  Program program;
  int moved = 0;             ///< instructions
  std::vector<Bytes> slots;  ///< by device: buffers it adds to channels; empty: none
};

struct ProgramPass {
  std::string_view name;
  std::string_view summary;  ///< what it does, for users
  std::string_view moves;    ///< what `moved` counts
  PassResult (*run)(Program program, const PassOptions& options) = nullptr;
};

/// In the order in which they are applied.
[[nodiscard]] const std::vector<ProgramPass>& program_passes();

/// A set of passes of the table: bit i stands for row i.
using PassSet = std::uint32_t;
[[nodiscard]] PassSet all_passes();

struct PassOutcome {
  const ProgramPass* pass = nullptr;
  int moved = 0;
  bool kept = true;  ///< false: the step would have grown
  Ticks before = 0;  ///< makespan
  Ticks after = 0;
  std::vector<Bytes> slots;  ///< by device: buffers added to channels
  std::vector<Bytes> peaks;  ///< by device: how much more (or less) it holds at its fullest
};

struct PassedProgram {
  SimulatedProgram simulated;
  /// One per pass of the set, in the sequence in which they were applied: those tried again last.
  std::vector<PassOutcome> outcomes;
};

[[nodiscard]] PassedProgram apply_passes(SimulatedProgram simulated, PassSet passes,
                                         std::span<const Ticks> durations,
                                         const PassOptions& options = {});
/// A fault when the program cannot run before any pass.
[[nodiscard]] std::variant<PassedProgram, ProgramFault> apply_passes(
    Program program, PassSet passes, std::span<const Ticks> durations,
    const PassOptions& options = {});

}  // namespace plansearch
