// SPDX-License-Identifier: Apache-2.0
// Checks of a machine against the demands of software.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "plansearch/cluster.hpp"
#include "plansearch/machine_need.hpp"

namespace plansearch {

/// The first need that the machine does not meet, in words, with those of the software.
[[nodiscard]] std::optional<std::string> unmet_need(std::span<const MachineNeed> needs,
                                                    const Cluster& machine);

}  // namespace plansearch
