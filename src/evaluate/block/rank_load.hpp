// SPDX-License-Identifier: Apache-2.0
// Tokens of the fullest rank of experts, which decides how long a layer takes and what it keeps.
#pragma once

#include <vector>

#include "plansearch/device_mesh.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

/// Tokens of the fullest rank over the mean, for micro-batches of `sequences`. 1 where nothing is
/// routed, and where experts are padded to a capacity.
[[nodiscard]] double fullest_rank(const Network& network, const DeviceMesh& mesh, int sequences);

/// Lets the dimensions of routed tokens have the size that they have on that rank. `extents`: by
/// DimId, of a micro-batch of `sequences`.
void fill_fullest_rank(const Network& network, const DeviceMesh& mesh, int sequences,
                       std::vector<double>& extents);

}  // namespace plansearch
