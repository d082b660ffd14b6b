// SPDX-License-Identifier: Apache-2.0
// Whether the groups of a mixture of experts are ones that tokens can choose from.
#pragma once

#include <string>
#include <vector>

#include "plansearch/network.hpp"

namespace plansearch {

/// What is wrong with groups and the number of experts a token takes; empty where nothing is.
[[nodiscard]] std::vector<std::string> routing_faults(const Routing& routing);

}  // namespace plansearch
