// SPDX-License-Identifier: Apache-2.0
// plansearch validate TABLE.csv: predictions against measurements.
#pragma once

#include "options.hpp"

namespace plansearch::cli {

/// Returns an exit code; throws InputError for a malformed table, with file, line and column.
[[nodiscard]] int run_validate(const Options& options);

}  // namespace plansearch::cli
