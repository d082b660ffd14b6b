// SPDX-License-Identifier: Apache-2.0
// Plans of degrees whose linear operators run over rings.
#pragma once

#include <memory>

#include "search/strategy.hpp"

namespace plansearch {

/// Of every legal plan of a walk with sequence parallelism over a tensor group, the same with rings
/// under its products; the fastest of each family. Stands beside the plans by role.
[[nodiscard]] SearchPart ring_part(std::shared_ptr<const LegalWalk> walk);

}  // namespace plansearch
