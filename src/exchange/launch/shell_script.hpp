// SPDX-License-Identifier: Apache-2.0
// Commands that a shell script would start, found without running anything: assignments and
// conditions are followed where their operands stand in the script, everything else is skipped.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/launch/shell_words.hpp"

namespace plansearch::importers {

/// A simple command that runs, or may run: its words with variables replaced.
struct ShellCommand {
  std::vector<MarkedText> words;
  bool certain = true;  ///< not behind an unknown condition
};

/// Text between << WORD and WORD; `literal`: variables in it stay as they are.
struct HereDocument {
  MarkedText text;
  bool literal = false;
};

struct ReadScript {
  std::vector<ShellCommand> commands;  ///< in the order of the script
  std::vector<MarkedText> arguments;   ///< of arrays and variables that hold flags, in order
  std::vector<HereDocument> documents;
  std::vector<MarkedText> conditional;  ///< flags behind unknown conditions
  std::vector<std::string> sourced;     ///< other files it reads
  Variables variables;                  ///< as they are at the end
};

/// `defined`: variables that the user knows; assignments in the script do not change them.
/// `initial`: those that are set before it starts.
[[nodiscard]] ReadScript read_script(const MarkedText& script, const Variables& defined,
                                     const Variables& initial);

/// "*" and "?" of a shell.
[[nodiscard]] bool matches_pattern(std::string_view text, std::string_view pattern);
/// The result of a test in [ ]; nothing if it depends on files, commands or unknown values.
[[nodiscard]] std::optional<bool> test_result(const std::vector<std::string>& words);

}  // namespace plansearch::importers
