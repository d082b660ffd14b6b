// SPDX-License-Identifier: Apache-2.0
// Times of the steps of a run: the steady part, its middle, its spread and its slowest rank.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "answer/diagnose.hpp"
#include "base/ranges.hpp"
#include "base/statistics.hpp"

namespace plansearch {
namespace {

/// A step of the slowest rank.
struct Step {
  std::int64_t number;
  double time;
};

std::vector<Step> slowest_of_ranks(const std::vector<io::RankStep>& steps) {
  std::vector<Step> all;
  all.reserve(steps.size());
  for (const io::RankStep& step : steps) all.push_back({step.step, step.time.value()});
  std::ranges::sort(all, [](const Step& a, const Step& b) {
    return a.number != b.number ? a.number < b.number : a.time > b.time;
  });
  const auto others = std::ranges::unique(all, {}, &Step::number);
  all.erase(others.begin(), others.end());
  return all;
}

std::vector<double> times_of(std::span<const Step> steps) {
  std::vector<double> times;
  for (const Step& step : steps) times.push_back(step.time);
  return times;
}

double median_time(std::span<const Step> steps) {
  return median(times_of(steps));
}

/// How far ordinary steps lie from their middle, by the median of their distances.
class Ordinary {
 public:
  explicit Ordinary(std::span<const Step> steps) {
    constexpr double kSigmas = 4.0;
    constexpr double kLeast = 0.05;
    const Scatter scatter = scatter_of(times_of(steps));
    middle_ = scatter.middle;
    bound_ = std::max(kSigmas * scatter.deviation, kLeast * middle_);
  }
  [[nodiscard]] bool has(const Step& step) const { return std::abs(step.time - middle_) <= bound_; }
  [[nodiscard]] bool slower(const Step& step) const { return step.time > middle_ + bound_; }

 private:
  double middle_ = 0.0;
  double bound_ = 0.0;
};

/// Steps at the start that are not like those of the second half: compilation, caches, tqdm's
/// running mean. More than a tenth of the run are another pace, and no warm-up.
std::size_t warm_up_of(std::span<const Step> steps) {
  constexpr std::size_t kMost = 10;
  if (steps.size() < 2) return 0;
  const auto first_in = [](std::span<const Step> among, const Ordinary& ordinary) {
    const auto found = std::ranges::find_if(among, [&](const Step& s) { return ordinary.has(s); });
    return static_cast<std::size_t>(found - among.begin());
  };
  const std::size_t count = first_in(steps, Ordinary(steps.subspan(steps.size() / 2)));
  if (count <= std::max(kMost, steps.size() / 10) && count <= steps.size() / 2) return count;
  return first_in(steps.first(count), Ordinary(steps.first(count)));
}

/// The place before and after which steps lie on the two sides of `middle`, by the sum of signs;
/// nothing where chance does as much.
std::optional<std::size_t> split_by(std::span<const Step> steps, double middle) {
  constexpr double kChance = 1.6;  // 99 % of sums of random signs stay below, in roots of steps
  double sum = 0.0;
  double most = 0.0;
  std::size_t split = 0;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    if (steps[i].time != middle) sum += steps[i].time > middle ? 1.0 : -1.0;
    if (std::abs(sum) <= std::abs(most)) continue;
    most = sum;
    split = i + 1;
  }
  if (std::abs(most) < kChance * std::sqrt(static_cast<double>(steps.size()))) return std::nullopt;
  return split;
}

std::optional<PaceChange> change_of(std::span<const Step> steps) {
  constexpr std::size_t kFewest = 10;
  constexpr double kSmall = 0.03;
  constexpr double kSudden = 0.6;  // a straight line has a quarter of it there
  if (steps.size() < kFewest) return std::nullopt;
  const auto rough = split_by(steps, median_time(steps));
  if (!rough) return std::nullopt;
  const double between =
      (median_time(steps.first(*rough)) + median_time(steps.subspan(*rough))) / 2.0;
  const std::size_t split = split_by(steps, between).value_or(*rough);
  if (split < 3 || split + 3 > steps.size()) return std::nullopt;
  const double before = median_time(steps.first(split));
  const double after = median_time(steps.subspan(split));
  if (std::abs(after / before - 1.0) < kSmall) return std::nullopt;
  const std::size_t near = std::min({steps.size() / 8 + 1, split, steps.size() - split});
  const double there =
      median_time(steps.subspan(split, near)) - median_time(steps.subspan(split - near, near));
  return PaceChange{steps[split].number, Seconds(before), Seconds(after),
                    std::abs(there) >= kSudden * std::abs(after - before)};
}

/// The distance at which most slow steps follow each other.
std::optional<std::int64_t> period_of(const std::vector<std::int64_t>& slow) {
  constexpr std::size_t kFewest = 3;
  if (slow.size() < kFewest) return std::nullopt;
  std::map<std::int64_t, std::size_t> distances;
  for (std::size_t i = 1; i < slow.size(); ++i) ++distances[slow[i] - slow[i - 1]];
  const auto most =
      std::ranges::max_element(distances, {}, [](const auto& entry) { return entry.second; });
  const bool regular = most->first > 1 && 3 * most->second >= 2 * (slow.size() - 1);
  return regular ? std::optional(most->first) : std::nullopt;
}

}  // namespace

StepTimes step_times(const std::vector<io::RankStep>& steps) {
  std::map<std::int64_t, std::vector<double>> by_rank;
  for (const io::RankStep& step : steps) by_rank[step.rank].push_back(step.time.value());
  std::vector<double> sorted;
  for (const Step& step : slowest_of_ranks(steps)) sorted.push_back(step.time);
  std::ranges::sort(sorted);
  StepTimes times;
  times.steps = sorted.size();
  times.median = Seconds(quantile(sorted, 0.5));
  times.p10 = Seconds(quantile(sorted, 0.1));
  times.p90 = Seconds(quantile(sorted, 0.9));
  constexpr double kSlow = 1.5;
  const auto slow = std::ranges::count_if(
      sorted, [&](double time) { return time > kSlow * times.median.value(); });
  times.slow_share = static_cast<double>(slow) / static_cast<double>(sorted.size());
  if (by_rank.size() < 2) return times;
  std::vector<double> medians;
  for (const auto& [rank, own] : by_rank) medians.push_back(median(own));
  const double usual = median(medians);
  for (const auto& [rank, own] : by_rank) {
    const double ratio = median(own) / usual;
    if (times.slowest_rank && ratio <= times.slowest_over_median) continue;
    times.slowest_rank = rank;
    times.slowest_over_median = ratio;
  }
  return times;
}

SteadySteps steady_steps(const std::vector<io::RankStep>& steps) {
  constexpr double kFew = 0.3;  // of the steps: where more differ, all count
  const std::vector<Step> all = slowest_of_ranks(steps);
  SteadySteps steady;
  steady.all = all.size();
  steady.warm_up = warm_up_of(all);
  const std::span<const Step> rest = std::span(all).subspan(steady.warm_up);
  steady.change = change_of(rest);
  const auto split = static_cast<std::size_t>(std::ranges::count_if(rest, [&](const Step& step) {
    return steady.change && steady.change->sudden && step.number < steady.change->step;
  }));
  std::vector<std::int64_t> kept;  // ascending
  std::vector<std::int64_t> slow;
  for (const std::span<const Step> part : {rest.first(split), rest.subspan(split)}) {
    if (part.empty()) continue;
    const Ordinary ordinary(part);
    for (const Step& step : part) {
      if (ordinary.has(step)) kept.push_back(step.number);
      if (ordinary.slower(step)) slow.push_back(step.number);
    }
  }
  steady.apart = rest.size() - kept.size();
  steady.apart_every = period_of(slow);
  if (static_cast<double>(steady.apart) > kFew * static_cast<double>(rest.size())) {
    kept = transformed(rest, &Step::number);
    steady.apart = 0;
  }
  steady.steps.reserve(steps.size());
  for (const io::RankStep& step : steps) {
    if (std::ranges::binary_search(kept, step.step)) steady.steps.push_back(step);
  }
  return steady;
}

}  // namespace plansearch
