// SPDX-License-Identifier: Apache-2.0
// Plans that come from files: plan documents and entries of earlier answers.
#pragma once

#include "cli/settings.hpp"

namespace plansearch::cli {

/// Completes the options by `options.plan` ("plan.yaml", "result.json#2"): what the user left open
/// comes from the file. Without a plan the options as they are.
[[nodiscard]] AskedOptions complete_from_plan(const Options& options);

}  // namespace plansearch::cli
