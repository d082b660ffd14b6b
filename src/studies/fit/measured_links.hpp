// SPDX-License-Identifier: Apache-2.0
// Times of messages as they were measured, for links that follow no law.
#pragma once

#include <vector>

#include "studies/fit/kernel_fit.hpp"

namespace plansearch {

/// Tables by collective and ranks for the innermost tier, with the error of sizes left out; false
/// where none has three sizes inside one node.
[[nodiscard]] bool keep_measured_times(const std::vector<KernelTable>& tables, KernelFit& fit);

}  // namespace plansearch
