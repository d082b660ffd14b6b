// SPDX-License-Identifier: Apache-2.0
// The named spaces: which plans a search looks at.
#pragma once

#include "cli/options.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/space.hpp"

namespace plansearch::cli {

/// `options.space` for this problem; degrees given as flags pin their dimension. docs/output.md
/// lists the spaces. InputError when the pinned degrees leave no plan at all.
[[nodiscard]] SearchSpace build_space(const Problem& problem, const Options& options);

}  // namespace plansearch::cli
