// SPDX-License-Identifier: Apache-2.0
// From argv to Options; every mistake is an InputError with a remedy.
#pragma once

#include <atomic>
#include <string>
#include <variant>
#include <vector>

#include "cli/options.hpp"

namespace plansearch::cli {

/// Text that was asked for instead of a command: --help or --version.
struct Help {
  std::string text;
};

[[nodiscard]] std::variant<Options, Help> parse_command_line(int argc, char** argv);

/// Takes what a command would write. One call at a time; `stop` may be set by another thread.
struct Caller {
  std::string answer;                ///< instead of standard output
  std::vector<std::string> remarks;  ///< instead of standard error
  std::atomic<bool> stop{false};     ///< ends the command early, as a signal does
};

/// The options of a command line, which may be used for one call. Throws InputError.
[[nodiscard]] Options parse_words(const std::vector<std::string>& words, Caller& caller);

/// Runs a command as a shell would, and returns its exit code. Throws InputError, and Stopped where
/// it ended before there was an answer.
[[nodiscard]] int run_words(const std::vector<std::string>& words, Caller& caller);

}  // namespace plansearch::cli
