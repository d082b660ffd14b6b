// SPDX-License-Identifier: Apache-2.0
// What products, messages and copies take from each other, and what a captured launch costs, from
// samples of those probes.
#pragma once

#include <string>
#include <vector>

#include "io/sample_file.hpp"
#include "studies/fit/kernel_fit.hpp"

namespace plansearch {

/// Adds a group "overlap" with the shares of every pair that was measured alone and together, and
/// sets the launch of graphs. Samples of other probes are passed over.
void fit_overlap(const std::vector<io::Sample>& samples, KernelFit& fit);

/// "  concurrency: {...}" of an accelerator; empty where nothing was measured.
[[nodiscard]] std::string concurrency_section(const KernelFit& fit);

}  // namespace plansearch
