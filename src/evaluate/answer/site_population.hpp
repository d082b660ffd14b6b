// SPDX-License-Identifier: Apache-2.0
// Site factors: of an unmeasured site, from all measured ones, and of these themselves.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "plansearch/evaluation.hpp"
#include "plansearch/site.hpp"

namespace plansearch {

/// Logarithms of measured over predicted step times: a mean, what sites differ by, what is left.
struct SitePopulation {
  int sites = 0;
  double mean = 0.0;
  double mean_error = 0.0;  ///< standard deviation of `mean`
  double between = 0.0;     ///< standard deviation between sites
  double within = 0.0;      ///< that of the rows of a site, the median over sites
};

/// How many runs the prior of a factor weighs: k runs of a site count k / (k + kPriorRuns).
inline constexpr double kPriorRuns = 0.5;

/// Weight of the mean of `runs` runs against the population's mean.
[[nodiscard]] double own_weight(double runs);

/// The population of all sites but those of one laboratory (empty: of all).
[[nodiscard]] SitePopulation population_of(std::span<const MeasuredSite> sites,
                                           std::string_view without_laboratory = {});

/// A site of which nothing is known.
[[nodiscard]] SiteEffect typical_site(const SitePopulation& population);

/// Typical of vendors, or of laboratories that are none.
[[nodiscard]] SiteEffect typical_of(const SiteTable& sites, SiteKind kind);

/// A measured one, its factor shrunk towards the population's.
[[nodiscard]] SiteEffect own_site(const MeasuredSite& site, const SitePopulation& population);

/// "typical", "tuned" or a measured one. InputError with the nearest names.
[[nodiscard]] SiteEffect find_site(const SiteTable& sites, std::string_view name);

/// Parts of a step whose errors are a machine's own; they sum to the step without its site.
inline constexpr std::size_t kStepParts = 5 + kPurposeCount;
[[nodiscard]] Seconds& part_of_step(StepTimeBreakdown& step, std::size_t part);
[[nodiscard]] std::array<Seconds, kStepParts> parts_of_step(StepTimeBreakdown step);
/// "compute", "tensor", ...
[[nodiscard]] std::string_view step_part(std::size_t part);
/// A step of the site over its parts: the factor of the site, times those of the parts.
[[nodiscard]] double factor_at(const SiteEffect& site, const StepTimeBreakdown& step);

/// The site that rows of this source on this profile belong to; nullptr: none of them.
[[nodiscard]] const MeasuredSite* site_of(const SiteTable& sites, std::string_view source,
                                          std::string_view profile);

}  // namespace plansearch
