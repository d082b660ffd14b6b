// SPDX-License-Identifier: Apache-2.0
#include "cli/stopping.hpp"

#include <unistd.h>

#include <csignal>

#include "base/units.hpp"
#include "cli/in_process.hpp"

namespace plansearch::cli {
namespace {

std::atomic<bool> signalled{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_signal(int /*signal*/) {
  signalled.store(true);
  std::signal(SIGINT, SIG_DFL);  // whichever comes second ends the process
  std::signal(SIGTERM, SIG_DFL);
}

Bytes half_of_the_machine() {
  const double pages = static_cast<double>(::sysconf(_SC_PHYS_PAGES));
  return Bytes(pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 2.0);
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = 0;  // an interrupted call is not begun again
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // the write fails instead, and says so
}

StopLimits stop_limits(const Options& options) {
  StopLimits limits;
  if (options.time_limit_s) limits.time = std::chrono::duration<double>(*options.time_limit_s);
  limits.memory = options.memory_limit ? parse_quantity<Bytes>(*options.memory_limit)
                                       : std::optional(half_of_the_machine());
  limits.signal = options.caller == nullptr ? &signalled : &options.caller->stop;
  return limits;
}

std::string_view to_text(StopReason reason) {
  switch (reason) {
    case StopReason::TimeLimit:
      return "the time limit is reached";
    case StopReason::MemoryLimit:
      return "the memory limit is reached";
    case StopReason::Signal:
      return "interrupted";
    case StopReason::WorkLimit:
    case StopReason::None:
      break;
  }
  return "ended early";
}

}  // namespace plansearch::cli
