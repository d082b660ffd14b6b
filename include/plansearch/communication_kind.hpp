// SPDX-License-Identifier: Apache-2.0
// Kinds of data exchange between devices.
#pragma once

#include <cstdint>
#include <string_view>

namespace plansearch {

enum class CommunicationKind : std::uint8_t {
  AllGather,
  ReduceScatter,
  AllReduce,
  AllToAll,
  SendReceive,  ///< to a neighbour on the axis: pipeline stages, rings
  Permute,      ///< every device sends its tile to one other device of the group
  Slice,        ///< keep a part of what is here; nothing moves
};
[[nodiscard]] std::string_view to_text(CommunicationKind kind);

}  // namespace plansearch
