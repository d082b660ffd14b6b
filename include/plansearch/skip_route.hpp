// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace plansearch {

/// How a tensor gets to groups that do not follow its producer.
enum class SkipRoute : std::uint8_t {
  Direct,   ///< a message from its producer to each group that reads it
  Relayed,  ///< with the message of every stage on the way
};

}  // namespace plansearch
