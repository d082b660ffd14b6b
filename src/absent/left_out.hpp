// SPDX-License-Identifier: Apache-2.0
// Answers of the wings that a build leaves out (-DPLANSEARCH_WITHOUT=...).
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
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

enum class Wing : std::uint8_t { Evidence, Exchange, Measure };
inline constexpr std::array<std::string_view, 3> kWings{"evidence", "exchange", "measure"};

/// A command of the wing, whatever is typed behind it.
template <Wing wing>
cli::Command left_out(CLI::App& app, cli::Options& /*options*/) {
  app.allow_extras();
  return [name = app.get_name()](const cli::Options&) -> int {
    refuse_left_out(name, kWings[static_cast<std::size_t>(wing)]);
  };
}

}  // namespace plansearch
