// SPDX-License-Identifier: Apache-2.0
// One line on standard error that says how far the search is. Silent unless that is a terminal.
#pragma once

#include <chrono>
#include <string>

#include "cli/options.hpp"

namespace plansearch::cli {

class Progress {
 public:
  explicit Progress(const Options& options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// What is being done, such as "64 GPUs (3 of 9)".
  void begin(std::string label);
  /// `share` of it is done, 0..1. Redraws at most ten times a second.
  void update(double share);
  /// Removes the line.
  void clear();

 private:
  bool visible_;
  bool drawn_ = false;
  std::string label_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace plansearch::cli
