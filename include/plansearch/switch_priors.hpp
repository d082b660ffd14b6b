// SPDX-License-Identifier: Apache-2.0
// Frequencies of the values that laboratories ran of each optional switch: the prior of a question
// that leaves the switch out.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plansearch/degree_table.hpp"

namespace plansearch {

/// The runs of one source, by their value of one switch.
struct SwitchCount {
  Degree degree = Degree::Recompute;
  std::string framework;
  std::string source;
  int year = 0;                             ///< of the source
  std::vector<std::pair<int, int>> runs{};  ///< value and number of runs
};

struct SwitchPriors {
  std::vector<SwitchCount> counts{};
  /// How many of those who leave a switch out run what is assumed then: the framework's default.
  /// The others run what those who state it do.
  double as_assumed = 0.0;
};

/// The year of a source; of an unknown one that of the newest.
[[nodiscard]] int year_of(const SwitchPriors& priors, std::string_view source);

/// The probability of a value of an unstated switch, from 0 to 1. Each source of the framework
/// counts 1 / (1 + years between it and `year`), all frameworks together count as half a source
/// more. 0 if no source states the switch.
[[nodiscard]] double prior_share(const SwitchPriors& priors, Degree degree,
                                 std::string_view framework, int year, int value);

}  // namespace plansearch
