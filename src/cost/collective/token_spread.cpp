// SPDX-License-Identifier: Apache-2.0
// Computes: the expected number of boxes that a token's experts touch. All alike: N (1 - P),
//           P = C(E - e, k) / C(E, k) the chance that none of the e = E / N experts of a box is
//           among the k chosen. Group-limited: the mean over tokens drawn with a fixed generator.
//           Variance of the experts of a token in one box: k/N (1 - 1/N) (E - k) / (E - 1).
// Source: sampling without replacement; group-limited choice as in DeepSeek-V3 (arXiv 2412.19437,
//         section 2.1.2, node-limited routing) and Megatron-LM@d98e8a64
//         megatron/core/transformer/moe/moe_utils.py: group_limited_topk.
// Assumes: scores of experts are alike and independent; boxes are equal and hold neighbours.
// Units: boxes.
// Checked by: tests/unit/cost/token_spread_test.cpp (routing of many tokens, closed forms)
#include "cost/collective/collective_cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace plansearch {
namespace {

double ungrouped(const Routing& routing, double boxes) {
  const auto experts = static_cast<double>(routing.experts);
  const double held = experts / boxes;
  double missed = 1.0;
  for (std::int64_t i = 0; i < routing.top_k; ++i) {
    missed *=
        std::max(0.0, experts - held - static_cast<double>(i)) / (experts - static_cast<double>(i));
  }
  return boxes * (1.0 - missed);
}

/// Draws tokens and lets each choose its groups, then its experts.
class Router {
 public:
  explicit Router(const Routing& routing)
      : routing_(routing),
        group_size_(routing.experts / routing.groups),
        ranked_(static_cast<std::size_t>(
            std::max<std::int64_t>(1, std::min(routing.top_k / routing.top_groups, group_size_)))),
        scores_(static_cast<std::size_t>(routing.experts)),
        sums_(static_cast<std::size_t>(routing.groups)),
        groups_(sums_.size()) {}

  /// Experts of one token.
  const std::vector<std::size_t>& choose() {
    for (double& score : scores_) score = static_cast<double>(random_() >> 11U);
    const auto size = static_cast<std::size_t>(group_size_);
    for (std::size_t g = 0; g < sums_.size(); ++g) {
      best_.assign(scores_.begin() + static_cast<std::ptrdiff_t>(g * size),
                   scores_.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
      const auto end = best_.begin() + static_cast<std::ptrdiff_t>(ranked_);
      std::partial_sort(best_.begin(), end, best_.end(), std::greater<>());
      sums_[g] = std::accumulate(best_.begin(), end, 0.0);
    }
    std::iota(groups_.begin(), groups_.end(), std::size_t{0});
    take_best(groups_, sums_, static_cast<std::size_t>(routing_.top_groups));
    experts_.clear();
    for (const std::size_t g : groups_) {
      for (std::size_t e = g * size; e < (g + 1) * size; ++e) experts_.push_back(e);
    }
    groups_.resize(sums_.size());
    take_best(experts_, scores_, static_cast<std::size_t>(routing_.top_k));
    return experts_;
  }

 private:
  static void take_best(std::vector<std::size_t>& from, const std::vector<double>& values,
                        std::size_t count) {
    count = std::min(count, from.size());
    std::partial_sort(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count), from.end(),
                      [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
    from.resize(count);
  }

  const Routing& routing_;
  std::int64_t group_size_;
  std::size_t ranked_;  ///< scores whose sum ranks a group
  std::mt19937_64 random_{1};
  std::vector<double> scores_;
  std::vector<double> sums_;
  std::vector<std::size_t> groups_;
  std::vector<double> best_;
  std::vector<std::size_t> experts_;
};

/// Standard error below 0.3 % of the mean.
constexpr int kTokens = 4096;
/// Tokens drawn for the variance: a sampling error of 3 %, of a deviation of about one percent.
constexpr int kFewTokens = 512;

struct Moments {
  double touched = 0.0;   ///< mean number of boxes
  double variance = 0.0;  ///< of a token's experts in one box
};

/// Experts of drawn tokens, one token after the other: the same for boxes of any size.
std::shared_ptr<const std::vector<std::size_t>> choices(const Routing& routing) {
  using Key = std::array<std::int64_t, 4>;
  static std::mutex mutex;
  static std::map<Key, std::shared_ptr<const std::vector<std::size_t>>> known;
  const std::lock_guard lock(mutex);
  auto& chosen = known[{routing.experts, routing.top_k, routing.groups, routing.top_groups}];
  if (chosen) return chosen;
  Router router(routing);
  std::vector<std::size_t> experts;
  for (int token = 0; token < kTokens; ++token) {
    const std::vector<std::size_t>& own = router.choose();
    experts.insert(experts.end(), own.begin(), own.end());
  }
  return chosen = std::make_shared<const std::vector<std::size_t>>(std::move(experts));
}

Moments drawn(const Routing& routing, double boxes, int tokens) {
  const auto all = choices(routing);
  const std::size_t each = all->size() / kTokens;
  std::vector<double> copies;
  Moments sums;
  for (int token = 0; token < tokens; ++token) {
    copies.assign(static_cast<std::size_t>(std::ceil(boxes)), 0.0);
    for (std::size_t i = 0; i < each; ++i) {
      const std::size_t expert = (*all)[static_cast<std::size_t>(token) * each + i];
      const auto box = static_cast<std::size_t>(static_cast<double>(expert) * boxes /
                                                static_cast<double>(routing.experts));
      copies[box] += 1.0;
    }
    for (const double count : copies) {
      if (count > 0.0) sums.touched += 1.0;
      sums.variance += count * count / boxes;
    }
  }
  const double mean = static_cast<double>(routing.top_k) / boxes;
  return {sums.touched / tokens, sums.variance / tokens - mean * mean};
}

bool is_grouped(const Routing& routing) {
  return routing.groups > 1 && routing.top_groups < routing.groups;
}

const Moments& grouped(const Routing& routing, double boxes, int tokens) {
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, double, int>;
  thread_local std::map<Key, Moments> known;
  const Key key{routing.experts, routing.top_k, routing.groups, routing.top_groups, boxes, tokens};
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.emplace(key, drawn(routing, boxes, tokens)).first->second;
}

}  // namespace

double expected_boxes(const Routing& routing, double boxes) {
  if (boxes <= 1.0) return 1.0;
  return is_grouped(routing) ? grouped(routing, boxes, kTokens).touched : ungrouped(routing, boxes);
}

double copies_variance(const Routing& routing, double boxes) {
  if (boxes <= 1.0) return 0.0;
  if (is_grouped(routing)) return grouped(routing, boxes, kFewTokens).variance;
  const auto experts = static_cast<double>(routing.experts);
  const auto chosen = static_cast<double>(routing.top_k);
  return chosen / boxes * (1.0 - 1.0 / boxes) * (experts - chosen) / std::max(experts - 1.0, 1.0);
}

}  // namespace plansearch
