// SPDX-License-Identifier: Apache-2.0
// One line on standard error that says how far the search is. Silent unless that is a terminal.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "cli/options.hpp"
#include "plansearch/search.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch::cli {

class Progress {
 public:
  explicit Progress(const Options& options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Names the work, such as "64 GPUs (3 of 9)".
  void begin(std::string label);
  /// Draws how much is done, the best so far and the time left; at most ten times a second.
  void update(const SearchProgress& progress);
  void clear();

 private:
  bool visible_;
  bool drawn_ = false;
  std::string label_;
  std::chrono::steady_clock::time_point begun_;
  std::chrono::steady_clock::time_point last_;
};

/// Installs the handlers, and makes writing to a closed pipe an error instead of a signal.
void install_signal_handlers();

/// By default half of the machine's memory, and any time.
[[nodiscard]] StopLimits stop_limits(const Options& options);

/// "interrupted"
[[nodiscard]] std::string_view to_text(StopReason reason);

}  // namespace plansearch::cli
