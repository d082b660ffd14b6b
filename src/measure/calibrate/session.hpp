// SPDX-License-Identifier: Apache-2.0
// A run of probes into a file of samples, which may hold some of them already; its budget and the
// order of its points.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/document/file.hpp"
#include "measure/calibrate/backend.hpp"
#include "measure/calibrate/probe.hpp"
#include "measure/sample_file.hpp"
#include "plansearch/cluster.hpp"
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

/// How one point is measured: warm-up until times agree, then blocks of calls.
struct Protocol {
  double longest_warm_up = 0.5;  ///< seconds
  double block = 0.1;            ///< seconds that the calls of a block should take
  int blocks = 7;
  [[nodiscard]] static Protocol quick() { return {0.1, 0.02, 5}; }
  /// Seconds for a point whose call takes so long.
  [[nodiscard]] double cost(double call) const;
};

/// The median of the blocks. A backend that returns nothing usable gives a sample with `failed`.
[[nodiscard]] io::Sample measure(Backend& backend, const Point& point, const Protocol& protocol);

/// Adds lines to a file of samples, each by one write.
class SampleWriter {
 public:
  /// Opens or makes the file. The rest of a line that a killed run left is cut off; a file of another
  /// machine or back end is an InputError, and so is one that cannot be written.
  SampleWriter(std::string path, const io::SampledMachine& machine, std::string_view date);

  /// Samples of earlier runs.
  [[nodiscard]] const std::vector<io::Sample>& before() const { return old_.samples; }
  void add(const io::Sample& sample);

 private:
  void write(std::string_view line);

  std::string path_;
  io::SampleFile old_;
  io::Descriptor file_;
};

/// Samples of today against a profile: one class of operations.
struct Drift {
  std::string part;
  std::size_t points = 0;
  double ratio = 1.0;     ///< measured over predicted, median
  double expected = 1.0;  ///< the same when the profile was fitted
  double band = 0.0;      ///< of ln(ratio / expected), beyond which the part has drifted
  [[nodiscard]] bool drifted() const;
};

/// A rank that others wait for.
struct SlowRank {
  std::string part;  ///< "kernels": of its own; "messages": of its group
  std::size_t rank = 0;
  std::string where{};     ///< host and GPU, as the machine says
  double ratio = 1.0;      ///< its time over that of the middle rank, median
  std::size_t points = 0;  ///< in which it was the slowest
};

/// The process that was the slowest in most points of the samples, by more than a tenth.
[[nodiscard]] std::vector<SlowRank> slow_ranks(const io::SampledMachine& machine,
                                               const std::vector<io::Sample>& samples);

/// By format of products, by direction of attention, by passes over memory, by kind and group of
/// collectives. Samples that the profile cannot predict are left out.
[[nodiscard]] std::vector<Drift> drifts(const io::SampledMachine& machine,
                                        const std::vector<io::Sample>& samples,
                                        const Cluster& profile);

}  // namespace plansearch::calibrate
