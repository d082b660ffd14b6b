// SPDX-License-Identifier: Apache-2.0
// How tokens reach the devices that hold their experts, and come back: libraries as data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/data_type.hpp"

namespace plansearch {

/// One condition and who states it. A field that is absent or empty asks for nothing.
struct MachineNeed {
  std::vector<std::string> links{};    ///< the tier of links inside a node has one of these names
  std::vector<std::string> fabrics{};  ///< the tier that leaves it, where there is one
  std::optional<int> most_linked{};    ///< accelerators that links without network cards join
  std::optional<DataType> format{};    ///< that matrix engines of the accelerator have
  std::string message{};  ///< of the software that refuses other machines, with its file
  bool operator==(const MachineNeed&) const = default;
};

enum class TokenPath : std::uint8_t {
  Pairs,   ///< every copy of a token straight to the device of its expert (an all-to-all)
  Gather,  ///< every token to every device of the group, sums scattered on the way back
  Nodes,   ///< once to each node that holds one of its experts, there once to each such device
};

/// The number of a dispatcher among all there are names for.
enum class DispatcherId : std::uint8_t {};
/// The dispatcher that a framework uses by default, with the overlap that its runs show.
inline constexpr DispatcherId kOwnDispatcher{0};
/// The search chooses the dispatcher that kernels wait for least.
inline constexpr DispatcherId kAnyDispatcher{255};

/// "own", then every name that tables of dispatchers can use.
[[nodiscard]] const std::vector<std::string>& dispatcher_names();
[[nodiscard]] std::string_view to_text(DispatcherId id);
/// The dispatcher of a name; case and hyphens do not matter.
[[nodiscard]] std::optional<DispatcherId> find_dispatcher(std::string_view word);

/// A row of a table of dispatchers (docs/frameworks.md).
struct TokenDispatcher {
  std::string name = "all-to-all";
  DispatcherId id{1};
  TokenPath path = TokenPath::Pairs;
  /// TokenPath::Nodes: shares of the nominal rates that its kernels reach.
  double fabric_share = 1.0;  ///< of the network card of one accelerator
  double link_share = 1.0;    ///< of the links of one accelerator inside a domain
  std::string source{};
  std::vector<MachineNeed> needs{};  ///< of the machine
  bool operator==(const TokenDispatcher&) const = default;
};

/// How evenly routers spread tokens: a row of the same table.
struct RoutingKind {
  std::string name = "balanced";
  std::vector<std::string> aliases{};
  double spread = 0.0;  ///< of experts' shares of the tokens of a micro-batch: deviation over mean
  bool dealt = false;   ///< every token gets the next top_k experts: neighbours, all equally often
  std::string source{};
  bool operator==(const RoutingKind&) const = default;
};

}  // namespace plansearch
