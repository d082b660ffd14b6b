// SPDX-License-Identifier: Apache-2.0
// The table of commands: rows of the core (options.cpp) and of the wings.
#pragma once

#include <memory>
#include <span>

#include "cli/options.hpp"

namespace plansearch::cli {

/// The options, of those that several commands share, that one takes.
enum class Shares { Output, Plan, Search };

struct CommandRow {
  const char* name;
  const char* help;
  Shares shares;
  /// Adds the options of its own and returns the command, which runs once they are parsed. A wing keeps the values of
  /// its options in the command.
  Command (*bind)(CLI::App&, Options&);
  bool markdown = false;  ///< answers in --format markdown too
};

/// A command whose options are fields of `Options`.
template <int (*Run)(const Options&), void (*AddOwn)(CLI::App&, Options&)>
Command bind_command(CLI::App& app, Options& options) {
  AddOwn(app, options);
  return Run;
}

/// A command with options of its own, `Own`.
template <typename Own, int (*Run)(const Options&, const Own&),
          void (*AddOwn)(CLI::App&, Options&, Own&)>
Command bind_own(CLI::App& app, Options& options) {
  const auto own = std::make_shared<Own>();
  AddOwn(app, options, *own);
  return [own](const Options& o) { return Run(o, *own); };
}

// The commands of each wing: defined by the wing, or, where a build leaves it out, in src/absent.
[[nodiscard]] std::span<const CommandRow> exchange_commands();
[[nodiscard]] std::span<const CommandRow> evidence_commands();
[[nodiscard]] std::span<const CommandRow> measure_commands();

}  // namespace plansearch::cli
