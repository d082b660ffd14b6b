// SPDX-License-Identifier: Apache-2.0
// How many tokens the fullest rank of a group of experts gets.
#pragma once

#include "plansearch/network.hpp"

namespace plansearch {

/// Expected tokens of the fullest of `ranks` ranks that hold the experts between them, over the
/// mean, which is `rows` (every copy of a token counts). 1 where all experts are alike, or with one
/// rank.
[[nodiscard]] double fullest_rank(const Routing& routing, double ranks, double rows);

/// Expected largest of `count` independent standard normal numbers.
[[nodiscard]] double expected_largest(double count);

}  // namespace plansearch
