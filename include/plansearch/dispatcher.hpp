// SPDX-License-Identifier: Apache-2.0
// How tokens reach the devices that hold their experts, and come back: libraries as data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plansearch {

enum class TokenPath : std::uint8_t {
  Pairs,   ///< every copy of a token straight to the device of its expert (an all-to-all)
  Gather,  ///< every token to every device of the group, sums scattered on the way back
  Nodes,   ///< once to each node that holds one of its experts, there once to each such device
};

/// A row of a table of dispatchers (docs/frameworks.md).
struct TokenDispatcher {
  std::string name = "all-to-all";
  TokenPath path = TokenPath::Pairs;
  /// TokenPath::Nodes: shares of the nominal rates that its kernels reach.
  double fabric_share = 1.0;  ///< of the network card of one accelerator
  double link_share = 1.0;    ///< of the links of one accelerator inside a domain
  std::string source{};
  bool operator==(const TokenDispatcher&) const = default;
};

/// How evenly routers spread tokens: a row of the same table.
struct RoutingKind {
  std::string name = "balanced";
  std::vector<std::string> aliases{};
  double spread = 0.0;  ///< of experts' shares of the tokens of a micro-batch: deviation over mean
  std::string source{};
  bool operator==(const RoutingKind&) const = default;
};

}  // namespace plansearch
