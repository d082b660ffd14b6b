// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "base/units.hpp"
#include "cli/output.hpp"
#include "cli/parse.hpp"

namespace plansearch::cli {

namespace {

constexpr int kBarWidth = 30;
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

/// "  12 s left", once there is something to tell it from.
std::string time_left(double done, std::chrono::duration<double> elapsed) {
  constexpr double kEnoughShare = 0.02;
  constexpr double kEnoughSeconds = 1.0;
  if (done < kEnoughShare || elapsed.count() < kEnoughSeconds) return {};
  return fmt::format("  {:.0f} s left", std::ceil(elapsed.count() * (1.0 - done) / done));
}

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

Progress::Progress(const Options& options)
    : visible_(!options.quiet && options.caller == nullptr && ::isatty(STDERR_FILENO) == 1 &&
               !is_dumb_terminal()) {}

Progress::~Progress() {
  clear();
}

void Progress::begin(std::string label) {
  label_ = std::move(label);
  begun_ = std::chrono::steady_clock::now();
  last_ = {};
}

void Progress::update(const SearchProgress& progress) {
  if (!visible_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < kRedrawInterval) return;
  last_ = now;
  const double done = std::clamp(progress.share, 0.0, 1.0);
  const int filled = static_cast<int>(done * kBarWidth);
  std::string line = fmt::format("\r\x1b[K[{:=<{}}{: <{}}] {:3.0f} %  {}", "", filled, "",
                                 kBarWidth - filled, done * 100.0, label_);
  if (progress.best) line += fmt::format("  best {}", to_text(*progress.best));
  line += time_left(done, now - begun_);
  write_to_standard_error(line);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  write_to_standard_error("\r\x1b[K");
  drawn_ = false;
}

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
