// SPDX-License-Identifier: Apache-2.0
#include "plansearch/switch_priors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/names.hpp"

namespace plansearch {
namespace {

/// Weight of all frameworks together against the sources of one: half a source, as prior knowledge
/// counts half a row in every fit.
constexpr double kEverywhere = 0.5;

/// Shares of a value in sources that were weighed, and the weights.
struct Weighed {
  double value = 0.0;
  double all = 0.0;

  void add(const SwitchCount& count, int year, int wanted) {
    double runs = 0.0;
    double alike = 0.0;
    for (const auto& [value_of_runs, number] : count.runs) {
      runs += number;
      if (value_of_runs == wanted) alike += number;
    }
    if (runs <= 0.0) return;
    const double weight = 1.0 / (1.0 + std::abs(count.year - year));
    value += weight * alike / runs;
    all += weight;
  }
};

}  // namespace

int year_of(const SwitchPriors& priors, std::string_view source) {
  int newest = 0;
  int own = 0;
  for (const SwitchCount& count : priors.counts) {
    newest = std::max(newest, count.year);
    if (count.source == source) own = std::max(own, count.year);
  }
  return own > 0 ? own : newest;
}

double prior_share(const SwitchPriors& priors, Degree degree, std::string_view framework, int year,
                   int value) {
  Weighed everywhere;
  Weighed here;
  for (const SwitchCount& count : priors.counts) {
    if (count.degree != degree) continue;
    everywhere.add(count, year, value);
    if (canonical_name(count.framework) == canonical_name(framework)) here.add(count, year, value);
  }
  if (everywhere.all <= 0.0) return 0.0;
  return (here.value + kEverywhere * everywhere.value / everywhere.all) / (here.all + kEverywhere);
}

}  // namespace plansearch
