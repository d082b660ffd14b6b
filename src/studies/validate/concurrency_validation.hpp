// SPDX-License-Identifier: Apache-2.0
// Predictions for tables of kernels, messages and copies that ran alone and at once.
#pragma once

#include <vector>

#include "studies/validate/kernel_validation.hpp"

namespace plansearch {

/// Combinations from their parts measured alone in the same table, which are not predicted
/// themselves. InputError for missing columns and malformed cells.
[[nodiscard]] std::vector<KernelRow> predict_concurrent(const io::CsvTable& table,
                                                        const KernelProfiles& profiles);

}  // namespace plansearch
