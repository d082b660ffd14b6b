// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "base/units.hpp"

namespace plansearch::calibrate {
namespace {

Protocol protocol_of(bool quick) {
  return quick ? Protocol::quick() : Protocol{};
}

Grid grid_of(const Backend& backend, const SessionRequest& request) {
  constexpr double kLongestCall = 0.5;  // seconds
  constexpr double kLongestQuickCall = 0.1;
  Grid grid;
  grid.quick = request.quick;
  grid.most_flops = backend.flop_rate() * (request.quick ? kLongestQuickCall : kLongestCall);
  grid.most_bytes = std::min(
      request.most_bytes, backend.byte_rate() * (request.quick ? kLongestQuickCall : kLongestCall));
  // Processes may differ in memory and speed: the points are those of the first.
  const std::vector<std::string> first =
      words_of(backend.shared(fmt::format("{:.17g}\n{:.17g}\n{}", grid.most_flops, grid.most_bytes,
                                          fmt::join(backend.formats(), "\n"))),
               "\n");
  grid.most_flops = parse_number(first.at(0)).value_or(0.0);
  grid.most_bytes = parse_number(first.at(1)).value_or(0.0);
  grid.formats.assign(first.begin() + 2, first.end());
  grid.shapes = request.shapes;
  grid.ranks = backend.ranks();
  grid.ranks_of_node = backend.machine().accelerators;
  return grid;
}

/// Seconds of calls: a guess from rough rates, corrected by what was measured of the same probe.
class Estimate {
 public:
  explicit Estimate(const Backend& backend)
      : flop_rate_(backend.flop_rate()), byte_rate_(backend.byte_rate()) {}

  [[nodiscard]] double call(const Point& point) const {
    const auto found = factors_.find(point.probe);
    return guess(point) * (found == factors_.end() ? 1.0 : found->second);
  }

  void learn(const Point& point, double seconds) {
    constexpr double kWeight = 0.5;
    const double factor = seconds / guess(point);
    const auto [found, fresh] = factors_.emplace(point.probe, factor);
    if (!fresh) found->second = (1.0 - kWeight) * found->second + kWeight * factor;
  }

 private:
  [[nodiscard]] double guess(const Point& point) const {
    constexpr double kLaunch = 5e-6;
    const Work work = probe_named(point.probe).work(point);
    return kLaunch + work.flops / flop_rate_ + work.bytes / byte_rate_;
  }

  double flop_rate_;
  double byte_rate_;
  std::map<std::string_view, double> factors_;
};

/// Samples in the file of the first process, for all.
std::set<std::string> known_keys(const Backend& backend,
                                 const std::optional<SampleWriter>& writer) {
  std::string lines;
  if (writer) {
    for (const io::Sample& sample : writer->before()) {
      lines += io::sample_key(sample.probe, sample.cells) + "\n";
    }
  }
  const std::vector<std::string> keys = words_of(backend.shared(lines), "\n");
  return {keys.begin(), keys.end()};
}

/// One run: its clock, its file, what it has learnt.
class Session {
 public:
  Session(Backend& backend, const SessionRequest& request)
      : backend_(backend),
        begun_(backend.now()),
        protocol_(protocol_of(request.quick)),
        budget_(request.budget_s),
        estimate_(backend) {
    if (backend.is_first() && !request.out.empty())
      writer_.emplace(request.out, backend.machine(), request.date);
  }

  SessionSummary run(SessionPlan plan, const std::function<void(const SessionProgress&)>& show) {
    SessionSummary summary;
    summary.points = plan.points.size();
    summary.skipped = plan.skipped;
    const std::set<std::string> known = known_keys(backend_, writer_);
    for (const io::Sample& sample : plan.skipped) {
      if (writer_ && !known.contains(io::sample_key(sample.probe, {}))) writer_->add(sample);
    }
    std::vector<Point> points;
    for (Point& point : plan.points) {
      if (known.contains(point.key())) continue;
      points.push_back(std::move(point));
    }
    summary.known = summary.points - points.size();
    measure_all(points, summary, show);
    return summary;
  }

 private:
  /// The rest of a budget is seldom the time of a point: one may run over by a little.
  [[nodiscard]] bool fits(double seconds) const {
    constexpr double kOver = 1.05;
    return !budget_ || backend_.now() - begun_ + pace_ * seconds <= kOver * *budget_;
  }

  [[nodiscard]] double left(const std::vector<Point>& points, std::size_t from) const {
    double seconds = 0.0;
    for (std::size_t i = from; i < points.size(); ++i) {
      seconds += pace_ * protocol_.cost(estimate_.call(points[i]));
    }
    if (budget_) seconds = std::min(seconds, *budget_ - (backend_.now() - begun_));
    return seconds;
  }

  void measure_all(const std::vector<Point>& points, SessionSummary& summary,
                   const std::function<void(const SessionProgress&)>& show) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      summary.stopped = stop_reason();
      if (summary.stopped != StopReason::None) {
        summary.left += points.size() - i;
        return;
      }
      if (!fits(protocol_.cost(estimate_.call(points[i])))) {
        ++summary.left;
        continue;
      }
      show({summary.known + i, summary.points, left(points, i), points[i].key()});
      try {
        take(points[i], summary);
      } catch (const Stopped& stopped) {  // the point in flight is lost
        summary.stopped = stopped.reason;
        summary.left += points.size() - i;
        return;
      }
      if (!summary.broken.empty()) {
        summary.left += points.size() - i - 1;
        return;
      }
    }
  }

  /// A busy machine takes longer than its calls do.
  void keep_pace(double ratio) {
    constexpr double kWeight = 0.3;
    constexpr double kSlowest = 10.0;
    pace_ = (1.0 - kWeight) * pace_ + kWeight * std::clamp(ratio, 1.0, kSlowest);
  }

  void take(const Point& point, SessionSummary& summary) {
    constexpr double kMicrosecond = 1e-6;
    const double begun = backend_.now();
    const double expected = protocol_.cost(estimate_.call(point));
    const io::Sample sample = measure(backend_, point, protocol_);
    keep_pace((backend_.now() - begun) / expected);
    if (writer_) writer_->add(sample);
    if (sample.time_us) {
      estimate_.learn(point, *sample.time_us * kMicrosecond);
      ++summary.measured;
      summary.samples.push_back(sample);
      return;
    }
    ++summary.failed;
    if (const auto reason = backend_.broken()) {
      summary.broken = fmt::format("{}: {}", point.key(), *reason);
    }
  }

  Backend& backend_;
  double begun_;
  Protocol protocol_;
  std::optional<double> budget_;
  std::optional<SampleWriter> writer_;  ///< of the first process, where samples are kept
  Estimate estimate_;
  double pace_ = 1.0;  ///< seconds a point over those that it should take
};

constexpr std::size_t kShuffled = 8;
/// Between two words, in factors of two between sizes.
constexpr double kWordDistance = 1.0;

double distance(const Point& a, const Point& b) {
  double sum = 0.0;
  for (const auto& [name, value] : a.cells) {
    const std::string other = b.word(name);
    if (value == other) continue;
    const auto number = parse_number(value);
    const double step =
        number ? std::log2(*number / std::max(b.number(name), 1e-30)) : kWordDistance;
    sum += step * step;
  }
  return sum;
}

/// From the first point on, always the one farthest from all so far.
std::vector<Point> spread_out(std::vector<Point> points) {
  std::vector<double> nearest(points.size(), std::numeric_limits<double>::infinity());
  for (std::size_t done = 0; done < points.size(); ++done) {
    if (done > 0) {
      const auto rest = nearest.begin() + static_cast<std::ptrdiff_t>(done);
      const auto next =
          static_cast<std::size_t>(std::max_element(rest, nearest.end()) - nearest.begin());
      std::swap(points[done], points[next]);
      std::swap(nearest[done], nearest[next]);
    }
    for (std::size_t i = done + 1; i < points.size(); ++i) {
      nearest[i] = std::min(nearest[i], distance(points[i], points[done]));
    }
  }
  return points;
}

}  // namespace

SessionPlan plan_session(const Backend& backend, const SessionRequest& request) {
  SessionPlan plan;
  const Grid grid = grid_of(backend, request);
  for (const std::string& name : request.only) static_cast<void>(probe_named(name));
  std::vector<std::vector<Point>> sweeps;
  for (const Probe& probe : probes()) {
    const bool wanted = request.only.empty() || contains(request.only, probe.name);
    if (!wanted) continue;
    if (const auto reason = backend.lacks(probe)) {
      plan.skipped.push_back({.probe = std::string(probe.name), .skipped = *reason});
      continue;
    }
    sweeps.push_back(backend.recorded(probe).value_or(probe.points(grid)));
  }
  plan.points = informative_order(sweeps, request.seed);
  return plan;
}

double estimated_seconds(const Backend& backend, const std::vector<Point>& points, bool quick) {
  const Estimate estimate(backend);
  const Protocol protocol = protocol_of(quick);
  double seconds = 0.0;
  for (const Point& point : points) seconds += protocol.cost(estimate.call(point));
  return seconds;
}

SessionSummary run_session(Backend& backend, const SessionRequest& request,
                           const std::function<void(const SessionProgress&)>& show) {
  SessionPlan plan = plan_session(backend, request);
  return Session(backend, request).run(std::move(plan), show);
}

std::optional<double> parse_budget(const std::string& text) {
  constexpr double kMinute = 60.0;
  std::optional<double> seconds = parse_number(text);
  if (!seconds && text.ends_with('m')) {
    seconds = parse_number(text.substr(0, text.size() - 1));
    if (seconds) *seconds *= kMinute;
  }
  if (!seconds) {
    if (const auto time = parse_quantity<Seconds>(text)) seconds = time->value();
  }
  return seconds && *seconds > 0.0 ? seconds : std::nullopt;
}

std::vector<Point> informative_order(const std::vector<std::vector<Point>>& probes,
                                     std::uint64_t seed) {
  std::vector<std::vector<Point>> sorted;
  std::size_t longest = 0;
  for (const std::vector<Point>& points : probes) {
    sorted.push_back(spread_out(points));
    longest = std::max(longest, points.size());
  }
  std::vector<Point> order;
  for (std::size_t place = 0; place < longest; ++place) {
    for (const std::vector<Point>& points : sorted) {
      if (place < points.size()) order.push_back(points[place]);
    }
  }
  std::mt19937_64 random(seed);
  for (std::size_t begin = 0; begin < order.size(); begin += kShuffled) {
    const std::size_t end = std::min(order.size(), begin + kShuffled);
    for (std::size_t i = end - 1; i > begin; --i) {
      std::swap(order[i], order[begin + random() % (i - begin + 1)]);
    }
  }
  return order;
}

}  // namespace plansearch::calibrate
