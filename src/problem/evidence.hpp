// SPDX-License-Identifier: Apache-2.0
// The line that says what the numbers of an answer rest on.
#pragma once

#include <string>
#include <vector>

#include "plansearch/cluster.hpp"
#include "plansearch/framework.hpp"

namespace plansearch {

/// Of the profile, and of the framework.
[[nodiscard]] std::vector<std::string> evidence_of(const Cluster& cluster,
                                                   const Framework& framework);
[[nodiscard]] std::string evidence_line(const Cluster& cluster, const Framework& framework);

}  // namespace plansearch
