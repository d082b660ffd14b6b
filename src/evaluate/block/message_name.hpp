// SPDX-License-Identifier: Apache-2.0
// What a message is about, in words for readers.
#pragma once

#include <string>

#include "plansearch/communication.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

/// As `subject_name`, but the parameters of one launch by all their names where they go together.
[[nodiscard]] std::string message_name(const Block& block, const Communication& message,
                                       ParameterUnit unit);

}  // namespace plansearch
