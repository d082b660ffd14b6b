// SPDX-License-Identifier: Apache-2.0
// The rules every network obeys.
#pragma once

#include <string>
#include <vector>

#include "plansearch/network.hpp"

namespace plansearch::test {

/// The broken rules of a network, one sentence each; empty when it is well formed: ids in range,
/// operators in topological order, every tensor produced once, saved at most once, every
/// parameter used, dimensions inside the loop nest, fused operators side by side.
[[nodiscard]] std::vector<std::string> broken_rules(const Network& network);

}  // namespace plansearch::test
