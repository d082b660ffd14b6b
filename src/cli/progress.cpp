// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cli/output.hpp"

namespace plansearch::cli {
namespace {

constexpr int kBarWidth = 30;
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

}  // namespace

Progress::Progress(const Options& options)
    : visible_(!options.quiet && ::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  clear();
}

void Progress::begin(std::string label) {
  label_ = std::move(label);
  last_ = {};
}

void Progress::update(double share) {
  if (!visible_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < kRedrawInterval) return;
  last_ = now;
  const double done = std::clamp(share, 0.0, 1.0);
  const int filled = static_cast<int>(done * kBarWidth);
  write_to_standard_error(fmt::format("\r\x1b[K[{:=<{}}{: <{}}] {:3.0f} %  {}", "", filled, "",
                                      kBarWidth - filled, done * 100.0, label_));
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  write_to_standard_error("\r\x1b[K");
  drawn_ = false;
}

}  // namespace plansearch::cli
