// SPDX-License-Identifier: Apache-2.0
// Fused attention: its rates from measured times, by implementation and direction.
#pragma once

#include <vector>

#include "studies/fit/kernel_fit.hpp"

namespace plansearch {

/// Adds a group "attention NAME forward" or "... backward" for each that tables hold. Rows without
/// a kernel are of the one that benchmarks of the accelerator are compared with. Throws FitRefusal.
void fit_attention(const std::vector<KernelTable>& tables, const SitePopulation& population,
                   Carried carried, KernelFit& fit);

}  // namespace plansearch
