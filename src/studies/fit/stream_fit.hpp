// SPDX-License-Identifier: Apache-2.0
// Passes over memory: the rate of an accelerator's memory and what a pass takes to start.
#pragma once

#include <vector>

#include "studies/fit/kernel_fit.hpp"

namespace plansearch {

/// Adds a group "stream" where a table holds passes. Throws FitRefusal.
void fit_streams(const std::vector<KernelTable>& tables, const SitePopulation& population,
                 Carried carried, KernelFit& fit);

}  // namespace plansearch
