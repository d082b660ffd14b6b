// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace plansearch {

enum class CollectiveKind : std::uint8_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  SendReceive,
  Broadcast,
};
[[nodiscard]] std::string_view to_text(CollectiveKind kind);

}  // namespace plansearch
