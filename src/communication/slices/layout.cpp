// SPDX-License-Identifier: Apache-2.0
// Computes: how a tensor lies on a mesh: cuts per dimension, partial sums.
// Source: placement of the operator that produces or uses it.
// Assumes: axes cut evenly; parts add up to the value.
// Units: mesh axes.
// Checked by: tests/unit/communication/redistribution_test.cpp
#include "communication/slices/layout.hpp"

namespace plansearch {

AxisSet Layout::axes() const {
  AxisSet set;
  for (const SliceMap& map : dims) set = set | map.axes();
  for (const Axis axis : flat) set.insert(axis);
  return set;
}

double local_elements(const Layout& layout, const DeviceMesh& mesh,
                      std::span<const double> extents) {
  PLANSEARCH_CHECK(extents.size() == layout.dims.size());
  double count = 1.0;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    count *= extents[i] / static_cast<double>(layout.dims[i].slices());
  }
  for (const Axis axis : layout.flat) count /= mesh[axis].size;
  return count;
}

}  // namespace plansearch
