// SPDX-License-Identifier: Apache-2.0
// Whose runs an answer is about.
#pragma once

#include <string_view>

#include "plansearch/cluster.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/site.hpp"
#include "question/chosen.hpp"

namespace plansearch {

/// The site asked for, else the one the profile was fitted to with this framework, else a typical
/// one. InputError for a name that no site has.
[[nodiscard]] Chosen<SiteEffect> choose_site(const ProblemRequest& request, const SiteTable& sites,
                                             const Cluster& cluster, std::string_view framework);

}  // namespace plansearch
