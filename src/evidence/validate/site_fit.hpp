// SPDX-License-Identifier: Apache-2.0
// The site of a measured row, and the factor of a site from a few of its own runs.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "evaluate/answer/site_population.hpp"
#include "evidence/validate/run_record.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/site.hpp"

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

/// Whose run a measured row is: its column `site`, else the measured site that its source is of.
struct RowSites {
  std::string name;               ///< empty: the row does not say and its source is not listed
  std::optional<SiteEffect> own;  ///< where the site was measured
  SiteEffect typical;
  SiteEffect left_out;  ///< typical of all laboratories but the row's own
  SiteEffect answer;    ///< what the row, the command line or the profile name; else typical
};

class RunSites {
 public:
  /// `asked`: the site of rows that name none; empty: not asked. InputError for an unknown one.
  RunSites(const SiteTable& sites, const std::string& asked);

  [[nodiscard]] RowSites of(const RunRecord& run, const Cluster& cluster,
                            const Framework& framework) const;

 private:
  [[nodiscard]] const MeasuredSite* measured(const RunRecord& run) const;

  const SiteTable& sites_;
  std::optional<SiteEffect> asked_;
  std::map<std::string, SiteEffect, std::less<>> own_;       ///< by name
  std::map<std::string, SiteEffect, std::less<>> left_out_;  ///< by laboratory; "": none left out
};

}  // namespace plansearch
