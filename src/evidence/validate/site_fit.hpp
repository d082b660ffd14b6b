// SPDX-License-Identifier: Apache-2.0
// The factor of a site from a few of its own runs.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "evaluate/answer/site_population.hpp"

namespace plansearch {

inline constexpr std::size_t kFewestRuns = 3;
/// Scatter from which on a fit looks for what separates the runs.
inline constexpr double kLargeScatter = 0.15;

struct SiteFit {
  SiteEffect effect;
  std::vector<std::size_t> kept;      ///< runs it rests on
  std::vector<std::size_t> outliers;  ///< runs that contradict the others
};

struct SiteFitRefusal {
  std::string reason;
  std::vector<std::size_t> outliers;
};

/// From ln(measured / predicted) of the runs, predicted at factor 1. Refused below three runs that
/// agree, and where the factor would be no better known than that of a site without runs.
[[nodiscard]] std::variant<SiteFit, SiteFitRefusal> fit_site(std::span<const double> logs,
                                                             const SitePopulation& population);

}  // namespace plansearch
