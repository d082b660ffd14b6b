// SPDX-License-Identifier: Apache-2.0
// Early ends of a command: --time-limit, --memory-limit and the first SIGINT or
// SIGTERM. The second signal ends the process.
#pragma once

#include <string_view>

#include "cli/options.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch::cli {

/// Installs the handlers, and makes writing to a closed pipe an error instead of a signal.
void install_signal_handlers();

/// By default half of the machine's memory, and any time.
[[nodiscard]] StopLimits stop_limits(const Options& options);

/// "interrupted"
[[nodiscard]] std::string_view to_text(StopReason reason);

}  // namespace plansearch::cli
