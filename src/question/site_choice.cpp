// SPDX-License-Identifier: Apache-2.0
#include "question/site_choice.hpp"

#include "base/units.hpp"
#include "evaluate/answer/site_population.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// Answers write a site with its factor: "tuned x1".
std::string_view name_part(std::string_view text) {
  const std::size_t factor = text.rfind(" x");
  const bool number = factor != std::string_view::npos && parse_number(text.substr(factor + 2));
  return number ? text.substr(0, factor) : text;
}

}  // namespace

Chosen<SiteEffect> choose_site(const ProblemRequest& request, const SiteTable& sites,
                               const Cluster& cluster, std::string_view framework) {
  Chosen<SiteEffect> site;
  if (request.site) {
    try {
      site.or_else(find_site(sites, std::string(name_part(*request.site))), request.origin("site"));
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
