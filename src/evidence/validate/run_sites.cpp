// SPDX-License-Identifier: Apache-2.0
#include "evidence/validate/run_sites.hpp"

#include <algorithm>

#include "base/names.hpp"
#include "evaluate/answer/site_population.hpp"
#include "plansearch/error.hpp"

namespace plansearch {

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
  const auto found = std::find_if(sites_.begin(), sites_.end(), [&](const MeasuredSite& site) {
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
