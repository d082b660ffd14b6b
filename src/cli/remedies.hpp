// SPDX-License-Identifier: Apache-2.0
// What would make something fit: every remedy was tried before it is given.
#pragma once

#include <string>
#include <vector>

#include "cli/search_run.hpp"

namespace plansearch::cli {

/// Changes of the question, each with the best plan it leads to. Empty when none of them helps.
[[nodiscard]] std::vector<std::string> find_remedies(const AskedOptions& asked,
                                                     const Inputs& inputs, int gpus,
                                                     SearchRun& run);

}  // namespace plansearch::cli
