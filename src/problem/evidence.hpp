// SPDX-License-Identifier: Apache-2.0
// The line that says what the numbers of an answer rest on.
#pragma once

#include <string>

#include "plansearch/cluster.hpp"
#include "plansearch/framework.hpp"

namespace plansearch {

[[nodiscard]] std::string evidence_line(const Cluster& cluster, const Framework& framework);

}  // namespace plansearch
