// SPDX-License-Identifier: Apache-2.0
// The question of a command line, with nothing left open.
#pragma once

#include "cli/settings.hpp"
#include "plansearch/load_problem.hpp"

namespace plansearch::cli {

using Inputs = SettledProblem;

/// Reads the files and settles every value.
[[nodiscard]] Inputs load_inputs(const AskedOptions& asked);

}  // namespace plansearch::cli
