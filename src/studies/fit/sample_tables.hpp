// SPDX-License-Identifier: Apache-2.0
// Files of samples as the tables that `validate` reads.
#pragma once

#include <string>
#include <vector>

#include "io/sample_file.hpp"
#include "studies/fit/fit_tables.hpp"

namespace plansearch {

/// One table per kind of sample that a fit uses. Samples without a time are left out.
[[nodiscard]] std::vector<KernelTable> tables_of(const io::SampleFile& samples,
                                                 const std::string& machine);

}  // namespace plansearch
