// SPDX-License-Identifier: Apache-2.0
// Factors of a tensor group that may change places: no message takes another time for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "plansearch/cluster.hpp"
#include "plansearch/device_mesh.hpp"

namespace plansearch {

/// One value per factor of a tensor group.
template <typename T>
using ByFactor = std::array<T, kMostFactors>;

/// Factors in some order.
using FactorOrder = ByFactor<std::uint8_t>;

/// By factor, the first one of its run of neighbours that are alike.
struct AlikeFactors {
  ByFactor<std::uint8_t> first{0, 1, 2, 3, 4, 5, 6, 7};  ///< none is like another
};

/// Two neighbours are alike where messages cost the same over any group that holds one of them and
/// over the same group with the other in its place, and no role holds one of them alone.
[[nodiscard]] AlikeFactors alike_factors(const Cluster& cluster, const DeviceMesh& mesh);

}  // namespace plansearch
