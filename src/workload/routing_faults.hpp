// SPDX-License-Identifier: Apache-2.0
// Whether the groups of a mixture of experts are ones that tokens can choose from.
#pragma once

#include <string>
#include <vector>

#include "plansearch/network.hpp"

namespace plansearch {

/// Faults of the groups and of the number of experts per token; empty if there are none.
[[nodiscard]] std::vector<std::string> routing_faults(const Routing& routing);

}  // namespace plansearch
