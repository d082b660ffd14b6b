// SPDX-License-Identifier: Apache-2.0
// How one tensor lies on the devices of a mesh at one moment.
#pragma once

#include <span>
#include <string>

#include "communication/slices/slice_map.hpp"
#include "plansearch/axis.hpp"
#include "plansearch/device_mesh.hpp"

namespace plansearch {

inline constexpr std::size_t kMaxTensorRank = 6;

/// Dimensions in the order of the tensor; an axis that appears nowhere holds replicas.
struct Layout {
  FixedVector<SliceMap, kMaxTensorRank> dims;
  AxisSet partial;  ///< every device of these axes holds one part of the value
  AxisList flat;    ///< the local tile, flattened, cut over these axes, outermost first

  [[nodiscard]] AxisSet axes() const;  ///< of dims and flat
  bool operator==(const Layout&) const = default;
};

/// Elements that one device holds; `extents` are the whole extents of the dimensions. Not rounded:
/// uneven shards average out.
[[nodiscard]] double local_elements(const Layout& layout, const DeviceMesh& mesh,
                                    std::span<const double> extents);

}  // namespace plansearch
