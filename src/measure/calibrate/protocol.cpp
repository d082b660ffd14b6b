// SPDX-License-Identifier: Apache-2.0
// Computes: the time of a call: median over blocks of calls, and how far blocks scatter.
// Source: robust statistics (median, median absolute deviation).
// Assumes: blocks of one point are alike; those beyond five robust deviations are flagged and kept.
// Units: seconds inside, microseconds in samples.
// Checked by: tests/unit/measure/calibrate/protocol_test.cpp
#include "measure/calibrate/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evidence/evidence.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch::calibrate {
namespace {

constexpr int kAgreeing = 3;
constexpr double kAgreement = 0.02;
constexpr double kFar = 5.0;
constexpr double kUnstable = 0.1;
constexpr int kMostCalls = 1000;
constexpr double kMicro = 1e6;

/// Seconds a call once a row of times agree, or the time for that is over.
double warm_up(Trial& trial, const Protocol& protocol) {
  std::vector<double> times;
  double spent = 0.0;
  while (spent < protocol.longest_warm_up) {
    const double time = trial.run(1);
    if (!std::isfinite(time) || time <= 0.0) return time;
    spent += time;
    times.push_back(time);
    if (times.size() < kAgreeing) continue;
    const auto last = times.end() - kAgreeing;
    const auto [low, high] = std::minmax_element(last, times.end());
    if (*high <= *low * (1.0 + kAgreement)) break;
  }
  const std::size_t recent = std::min<std::size_t>(times.size(), kAgreeing);
  return median({times.end() - static_cast<std::ptrdiff_t>(recent), times.end()});
}

int calls_of(double call, double block) {
  return static_cast<int>(std::clamp(std::round(block / call), 1.0, double{kMostCalls}));
}

void summarise(io::Sample& sample) {
  const Scatter scatter = scatter_of(sample.blocks_us);
  sample.time_us = scatter.middle;
  sample.spread = scatter.deviation / scatter.middle;
  const double far = kFar * std::max(scatter.deviation, kAgreement * scatter.middle);
  const auto outliers =
      std::ranges::count_if(scatter.distances, [&](double distance) { return distance > far; });
  if (outliers > 0) sample.flags.push_back(fmt::format("outliers {}", outliers));
  if (sample.spread > kUnstable) sample.flags.emplace_back("unstable");
  for (const std::string& reason : sample.state.slowed) sample.flags.push_back("slowed: " + reason);
}

}  // namespace

double Protocol::cost(double call) const {
  const double block_time = call * calls_of(call, block);
  return std::max(kAgreeing * call, std::min(longest_warm_up, 10.0 * call)) + blocks * block_time;
}

io::Sample measure(Backend& backend, const Point& point, const Protocol& protocol) {
  io::Sample sample{.probe = std::string(point.probe), .cells = point.cells};
  try {
    const auto trial = backend.prepare(point);
    const double call = warm_up(*trial, protocol);
    const bool usable = std::isfinite(call) && call > 0.0;
    for (int block = 0; usable && block < protocol.blocks; ++block) {
      check_stop();
      const int calls = calls_of(call, protocol.block);
      sample.blocks_us.push_back(trial->run(calls) / calls * kMicro);
    }
    if (usable) sample.state = backend.state();
    const bool whole = std::ranges::all_of(
        sample.blocks_us, [](double time) { return std::isfinite(time) && time > 0.0; });
    if (usable && whole) {
      summarise(sample);
    } else {
      sample.blocks_us.clear();
      sample.failed = "the clock or the device returned no time";
    }
  } catch (const Unmeasurable& unmeasurable) {
    sample.blocks_us.clear();
    sample.failed = unmeasurable.reason;
  }
  return sample;
}

}  // namespace plansearch::calibrate
