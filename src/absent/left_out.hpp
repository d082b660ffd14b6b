// SPDX-License-Identifier: Apache-2.0
// Answers of the wings that a build leaves out (-DPLANSEARCH_WITHOUT=...).
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string_view>

#include "cli/command_row.hpp"
#include "plansearch/error.hpp"

namespace plansearch {

/// The answer to a question that a wing would answer: InputError with the command that builds it.
[[noreturn]] inline void refuse_left_out(std::string_view what, std::string_view wing) {
  throw InputError(
      {}, fmt::format("{}: this build leaves out the part '{}'", what, wing),
      "cmake --preset release -DPLANSEARCH_WITHOUT= && cmake --build --preset release builds it");
}

/// A command of the wing, whatever is typed behind it.
inline cli::Command bind_left_out(CLI::App& app, std::string_view wing) {
  app.allow_extras();
  return [name = app.get_name(), wing](const cli::Options&) -> int { refuse_left_out(name, wing); };
}

}  // namespace plansearch
