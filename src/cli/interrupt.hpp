// SPDX-License-Identifier: Apache-2.0
// Ctrl-C: the first one asks the search to stop, the second one ends the process.
#pragma once

#include <atomic>

namespace plansearch::cli {

/// Set by the first SIGINT or SIGTERM.
[[nodiscard]] const std::atomic<bool>& interrupted();

/// Installs the handlers, and makes writing to a closed pipe an error instead of a signal.
void install_signal_handlers();

/// For commands that do not ask `interrupted`: the first signal ends the process.
void leave_interrupts_alone();

}  // namespace plansearch::cli
