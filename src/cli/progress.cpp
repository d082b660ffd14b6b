// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/units.hpp"
#include "cli/output.hpp"

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

}  // namespace plansearch::cli
