// SPDX-License-Identifier: Apache-2.0
// Computes: the factor of a site, how sure it is, and which runs contradict the others.
// Source: one factor shrunk towards the population's, k runs weighing k / (k + 1/2); runs further
//         than six robust standard deviations from the median are left out (Hampel's rule, wide).
// Assumes: log-normal scatter; the scatter of a few runs is known as well as that of one further
//          run of usual scatter would make it.
// Units: logarithms of ratios.
// Checked by: tests/unit/evidence/site_fit_test.cpp
#include "evidence/validate/site_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/names.hpp"
#include "evidence/validate/error_summary.hpp"
#include "plansearch/error.hpp"

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

RunSites::RunSites(const SiteTable& sites, const std::string& asked) : sites_(sites) {
  const SitePopulation population = population_of(sites);
  left_out_.emplace("", typical_site(population));
  for (const MeasuredSite& site : sites) {
    own_.emplace(site.name, own_site(site, population));
    if (left_out_.contains(site.laboratory)) continue;
    left_out_.emplace(site.laboratory, typical_site(population_of(sites, site.laboratory)));
  }
  if (asked.empty()) return;
  try {
    asked_ = find_site(sites, asked);
  } catch (const InputError& error) {
    throw InputError({}, std::string("--site: ") + error.what(), error.hint());
  }
}

const MeasuredSite* RunSites::measured(const RunRecord& run) const {
  const std::string& named = run.cell("site");
  if (named.empty()) return site_of(sites_, run.cell("source"), run.hardware);
  const auto found = std::ranges::find_if(sites_, [&](const MeasuredSite& site) {
    return canonical_name(site.name) == canonical_name(named);
  });
  return found == sites_.end() ? nullptr : &*found;
}

RowSites RunSites::of(const RunRecord& run, const Cluster& cluster,
                      const Framework& framework) const {
  RowSites row;
  row.name = run.cell("site");
  row.typical = row.left_out = row.answer = left_out_.find("")->second;
  if (const MeasuredSite* site = measured(run)) {
    row.name = site->name;
    row.own = own_.find(site->name)->second;
    row.left_out = left_out_.find(site->laboratory)->second;
  }
  if (cluster.site && cluster.site->framework == framework.name) {
    row.own = row.answer = cluster.site->effect;
  }
  if (asked_) row.answer = *asked_;
  if (!run.cell("site").empty() && row.own) row.answer = *row.own;
  return row;
}

}  // namespace plansearch
