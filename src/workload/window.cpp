// SPDX-License-Identifier: Apache-2.0
// Computes: the places of a tensor that a slice of a result reads through a window, beyond those
//           that lie where the result is made.
// Source: an index is (sum of factors times places of the loop nest + offset) / divisor, rounded
//         down (plansearch/network.hpp); what a device needs and does not hold is its halo.
// Assumes: taps are whole; slices are consecutive places of equal number.
// Units: places of one dimension.
// Checked by: tests/unit/workload/window_test.cpp, tests/graphs/graph_test.py
#include "workload/window.hpp"

#include <algorithm>
#include <cmath>

#include "base/ranges.hpp"

namespace plansearch {

DimId moving_dimension(const Block& block, const Operator& op, const IndexExpression& index) {
  const IndexTerm* moving = &index.terms.front();
  bool carried = false;
  for (const IndexTerm& term : index.terms) {
    bool carries = false;
    if (!op.outputs.empty()) {
      const std::vector<DimId>& out = block.tensor(op.outputs.front()).dims;
      carries = contains(out, term.dim);
    }
    if (carries < carried) continue;
    if (carries == carried && std::abs(term.factor) <= std::abs(moving->factor)) continue;
    moving = &term;
    carried = carries;
  }
  return moving->dim;
}

PlaceRange held_places(const WindowedRead& read, int slices, int slice) {
  const double width = read.extent / slices;
  return {slice * width, (slice + 1) * width};
}

PlaceRange needed_places(const WindowedRead& read, int slices, int slice) {
  auto low = static_cast<double>(read.index.offset);
  double high = low;
  for (const IndexTerm& term : read.index.terms) {
    const double extent = read.extents[static_cast<std::size_t>(term.dim)];
    const bool moves = term.dim == read.moving;
    const double first = moves ? slice * extent / slices : 0.0;
    const double last = (moves ? (slice + 1) * extent / slices : extent) - 1.0;
    const auto factor = static_cast<double>(term.factor);
    low += std::min(factor * first, factor * last);
    high += std::max(factor * first, factor * last);
  }
  const auto divisor = static_cast<double>(read.index.divisor);
  const double begin = std::clamp(std::floor(low / divisor), 0.0, read.extent);
  const double end = std::clamp(std::floor(high / divisor) + 1.0, begin, read.extent);
  return {begin, end};
}

WindowPlaces window_places(const WindowedRead& read, int slices) {
  WindowPlaces places{0.0, 0.0, read.extent / slices};
  for (int slice = 0; slice < slices; ++slice) {
    const PlaceRange held = held_places(read, slices, slice);
    const PlaceRange needed = needed_places(read, slices, slice);
    const double both = needed.size() <= 0.0
                            ? held.size()
                            : std::max(held.end, needed.end) - std::min(held.begin, needed.begin);
    places.all += both;
    places.most = std::max(places.most, both);
  }
  return places;
}

}  // namespace plansearch
