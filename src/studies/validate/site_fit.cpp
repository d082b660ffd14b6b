// SPDX-License-Identifier: Apache-2.0
// Computes: the factor of a site, how sure it is, and which runs contradict the others.
// Source: one factor shrunk towards the population's, k runs weighing k / (k + 1/2); runs further
//         than six robust standard deviations from the median are left out (Hampel's rule, wide).
// Assumes: log-normal scatter; the scatter of a few runs is known as well as that of one further
//          run of usual scatter would make it.
// Units: logarithms of ratios.
// Checked by: tests/unit/studies/site_fit_test.cpp
#include "studies/validate/site_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "studies/validate/statistics.hpp"

namespace plansearch {
namespace {

constexpr double kOutlier = 6.0;

struct Moments {
  double mean = 0.0;
  double variance = 0.0;  ///< with that of one run of usual scatter
};

Moments moments_of(std::span<const double> logs, const std::vector<std::size_t>& kept,
                   double within) {
  Moments moments;
  const auto count = static_cast<double>(kept.size());
  for (const std::size_t run : kept) moments.mean += logs[run] / count;
  double squares = within * within;
  for (const std::size_t run : kept) {
    squares += (logs[run] - moments.mean) * (logs[run] - moments.mean);
  }
  moments.variance = squares / count;
  return moments;
}

}  // namespace

std::variant<SiteFit, SiteFitRefusal> fit_site(std::span<const double> logs,
                                               const SitePopulation& population) {
  if (logs.size() < kFewestRuns) {
    return SiteFitRefusal{fmt::format("{} run{}: a factor needs {}", logs.size(),
                                      logs.size() == 1 ? "" : "s", kFewestRuns),
                          {}};
  }
  const Scatter scatter = scatter_of({logs.begin(), logs.end()});
  const double usual = std::max(scatter.deviation, population.within);
  SiteFit fit;
  for (std::size_t run = 0; run < logs.size(); ++run) {
    (scatter.distances[run] > kOutlier * usual ? fit.outliers : fit.kept).push_back(run);
  }
  if (fit.kept.size() < kFewestRuns) {
    return SiteFitRefusal{fmt::format("only {} of {} runs agree: a factor needs {}",
                                      fit.kept.size(), logs.size(), kFewestRuns),
                          fit.outliers};
  }
  const Moments moments = moments_of(logs, fit.kept, population.within);
  const auto count = static_cast<double>(fit.kept.size());
  const double weight = own_weight(count);
  fit.effect.factor = std::exp(weight * moments.mean + (1.0 - weight) * population.mean);
  fit.effect.spread = std::sqrt(weight * moments.variance / count);
  fit.effect.scatter = std::sqrt(moments.variance);
  if (fit.effect.spread >= population.between) {
    return SiteFitRefusal{
        fmt::format("the runs scatter by {:.0f} %: their factor would be known to {:.0f} %, no "
                    "better than that of a site without runs ({:.0f} %)",
                    100.0 * fit.effect.scatter, 100.0 * fit.effect.spread,
                    100.0 * population.between),
        fit.outliers};
  }
  return fit;
}

}  // namespace plansearch
