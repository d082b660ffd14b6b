// SPDX-License-Identifier: Apache-2.0
// The line that says what the numbers of an answer rest on.
#pragma once

#include <string>
#include <vector>

#include "plansearch/problem.hpp"

namespace plansearch {

/// The evidence of the profile, of the framework and of the site.
[[nodiscard]] std::vector<std::string> evidence_of(const Problem& problem);
[[nodiscard]] std::string evidence_line(const Problem& problem);

}  // namespace plansearch
