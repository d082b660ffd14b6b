// SPDX-License-Identifier: Apache-2.0
// Links: what a tier carries and what a message takes to start.
#pragma once

#include <optional>
#include <vector>

#include "studies/fit/kernel_fit.hpp"

namespace plansearch {

/// Adds a group "collectives" where a table holds messages. Throws FitRefusal.
void fit_links(const std::vector<KernelTable>& tables, const SitePopulation& population,
               Carried carried, KernelFit& fit);

/// How far single messages scatter about the law of the base's links, once its constants are those
/// of the messages; nothing where they cannot be fitted.
[[nodiscard]] std::optional<double> link_error(const std::vector<KernelTable>& tables,
                                               const Cluster& base,
                                               const SitePopulation& population);

}  // namespace plansearch
