// SPDX-License-Identifier: Apache-2.0
// From argv to Options; every mistake is an InputError with a remedy.
#pragma once

#include <string>
#include <variant>

#include "cli/options.hpp"

namespace plansearch::cli {

/// Text that was asked for instead of a command: --help or --version.
struct Help {
  std::string text;
};

[[nodiscard]] std::variant<Options, Help> parse_command_line(int argc, char** argv);

}  // namespace plansearch::cli
