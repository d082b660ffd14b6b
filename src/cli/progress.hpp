// SPDX-License-Identifier: Apache-2.0
// One line on standard error that says how far the search is. Silent unless that is a terminal.
#pragma once

#include <chrono>
#include <string>

#include "cli/options.hpp"
#include "plansearch/search.hpp"

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
  /// Removes the line.
  void clear();

 private:
  bool visible_;
  bool drawn_ = false;
  std::string label_;
  std::chrono::steady_clock::time_point begun_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace plansearch::cli
