// SPDX-License-Identifier: Apache-2.0
// On how many boxes (nodes, devices) the experts of one token lie.
#pragma once

#include "plansearch/network.hpp"

namespace plansearch {

/// Expected number of different boxes among `boxes` that hold one of a token's experts, which lie
/// in boxes of equal size one after the other. Balanced routing.
[[nodiscard]] double expected_boxes(const Routing& routing, double boxes);

/// Variance of the number of a token's experts that lie in one of them.
[[nodiscard]] double copies_variance(const Routing& routing, double boxes);

/// Spread of an exchange that sends a token once to each node, and there once to each device.
struct TokenSpread {
  double copies = 1.0;        ///< in the message as it is counted: experts per token
  double nodes = 1.0;         ///< expected, that hold one of them
  double devices = 1.0;       ///< the same
  double fabric_share = 1.0;  ///< of nominal rates, that the dispatcher reaches
  double link_share = 1.0;
};

/// Expected tokens of the fullest of `ranks` ranks that hold the experts between them, over the
/// mean, which is `rows` (every copy of a token counts). 1 where all experts are alike, or with one
/// rank.
[[nodiscard]] double fullest_rank(const Routing& routing, double ranks, double rows);

/// Expected largest of `count` independent standard normal numbers.
[[nodiscard]] double expected_largest(double count);

}  // namespace plansearch
