// SPDX-License-Identifier: Apache-2.0
// A run of probes into a file of samples, which may hold some of them already; its budget and the
// order of its points.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/backend.hpp"
#include "calibrate/probe.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch::calibrate {

struct SessionRequest {
  std::string out;                  ///< empty: samples are not kept
  std::vector<std::string> only;    ///< names of probes; empty: all
  std::vector<MatmulShape> shapes;  ///< that models multiply
  bool quick = false;
  std::optional<double> budget_s;
  double most_bytes = 0.0;  ///< of the buffers of one point
  std::uint64_t seed = 1;
  std::string date;
};

/// Points to measure, the most informative first.
struct SessionPlan {
  std::vector<Point> points;
  std::vector<io::Sample> skipped;  ///< probes that the back end lacks, with the reason
};

struct SessionProgress {
  std::size_t done = 0;
  std::size_t points = 0;
  double seconds_left = 0.0;  ///< estimated
  std::string point;
};

struct SessionSummary {
  std::size_t points = 0;
  std::size_t known = 0;     ///< of those in the file before
  std::size_t measured = 0;  ///< now
  std::size_t failed = 0;    ///< now
  std::size_t left = 0;      ///< for which the budget did not suffice, or that came after a stop
  StopReason stopped = StopReason::None;
  std::string broken;  ///< the point after which the device measures no more, and why; or empty
  std::vector<io::Sample> skipped;
  std::vector<io::Sample> samples;  ///< measured now
};

[[nodiscard]] SessionPlan plan_session(const Backend& backend, const SessionRequest& request);

/// Seconds that the points take, by the rough rates of the back end.
[[nodiscard]] double estimated_seconds(const Backend& backend, const std::vector<Point>& points,
                                       bool quick);

/// InputError where the file is not one of samples, is of another machine, or cannot be written.
[[nodiscard]] SessionSummary run_session(Backend& backend, const SessionRequest& request,
                                         const std::function<void(const SessionProgress&)>& show);

/// Seconds of "90", "90s", "2m", "1h" and of what a profile may write ("2 min"); nothing: neither
/// is it one of these nor above zero.
[[nodiscard]] std::optional<double> parse_budget(const std::string& text);

/// Points of each probe so that every prefix covers its sweep as evenly as it can (the next point
/// is the one farthest from all before it, on logarithmic scales), probes taking turns; groups of
/// so many are shuffled, so that drift of the machine is not taken for a trend of the sweep.
[[nodiscard]] std::vector<Point> informative_order(const std::vector<std::vector<Point>>& probes,
                                                   std::uint64_t seed);

}  // namespace plansearch::calibrate
