// SPDX-License-Identifier: Apache-2.0
// Values that a user allows the degrees of a search to have: lists, ranges and bounds.
#pragma once

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/degree_set.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch {

/// Degrees of which nothing is said take any value. A degree that a plan makes no use of (the kind
/// of context parallelism of a plan without it) keeps no plan out.
class DegreeLimits {
 public:
  /// These values only; at least one.
  void allow(Degree degree, std::vector<int> values);
  void at_least(Degree degree, int low);
  void at_most(Degree degree, int high);
  void release(Degree degree) { limits_[index(degree)] = {}; }

  [[nodiscard]] bool has(Degree degree) const { return limits_[index(degree)] != Limit{}; }
  [[nodiscard]] bool empty() const { return *this == DegreeLimits{}; }
  [[nodiscard]] bool admits(Degree degree, int value) const;
  /// The values listed, ascending; empty where there are only bounds.
  [[nodiscard]] const std::vector<int>& listed(Degree degree) const {
    return limits_[index(degree)].values;
  }
  /// "1,2,4", "2..8", "at most 8"; empty where nothing is said.
  [[nodiscard]] std::string text(Degree degree) const;
  bool operator==(const DegreeLimits&) const = default;

 private:
  struct Limit {
    std::vector<int> values;
    int low = std::numeric_limits<int>::min();
    int high = std::numeric_limits<int>::max();
    bool operator==(const Limit&) const = default;
  };
  static constexpr std::size_t index(Degree degree) { return static_cast<std::size_t>(degree); }
  std::array<Limit, kDegreeCount> limits_{};
};

/// "tp 1,2,4, pp 2..8"
[[nodiscard]] std::string to_text(const DegreeLimits& limits);

/// Reads one value of a degree, as parse_value does.
using DegreeParser = std::optional<int> (*)(Degree degree, std::string_view text);

/// Reads the value of a flag of a degree: one value (pinned), a list "1,2,4" of values or words, a
/// range "2..8" of numbers. InputError, naming `flag`, for anything else.
void read_degree(std::string_view flag, std::string_view text, Degree degree, PinnedDegrees& pinned,
                 DegreeLimits& limits, DegreeParser parse = parse_value);
/// One value of a degree. InputError for anything else.
[[nodiscard]] int read_degree_value(std::string_view flag, std::string_view text, Degree degree,
                                    DegreeParser parse = parse_value);

}  // namespace plansearch
