// SPDX-License-Identifier: Apache-2.0
#include "problem/site_choice.hpp"

#include "evaluate/site_population.hpp"
#include "plansearch/error.hpp"

namespace plansearch {

Chosen<SiteEffect> choose_site(const ProblemRequest& request, const SiteTable& sites,
                               const Cluster& cluster, std::string_view framework) {
  Chosen<SiteEffect> site;
  if (request.site) {
    try {
      site.or_else(find_site(sites, *request.site), request.origin("site"));
    } catch (const InputError& error) {
      throw InputError({}, std::string("--site: ") + error.what(), error.hint());
    }
  }
  if (cluster.site && cluster.site->framework == framework) {
    site.or_else(cluster.site->effect, "profile");
  }
  return site.or_else(typical_site(population_of(sites)), "default");
}

}  // namespace plansearch
