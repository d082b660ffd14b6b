// SPDX-License-Identifier: Apache-2.0
// The slices of a linear operator that is cut by a sequence of parts, as PrimePar's figures give
// them: what tests hold placements against.
#pragma once

#include <array>

#include "communication/derive/partition_sequence.hpp"
#include "communication/slices/slice_map.hpp"

namespace plansearch::test {

struct LinearSlices {
  SliceMap batch;
  SliceMap m;
  SliceMap n;
  SliceMap k;
};

struct PlacedSequence {
  std::array<LinearSlices, kOperatorPhaseCount> phases;
  int steps = 1;
};

/// The slices of a sequence; bits are the factors of the mesh, factor 0 the innermost one. Squares
/// nest: the last one turns with every step.
[[nodiscard]] PlacedSequence place_sequence(const PartitionSequence& sequence,
                                            const DeviceMesh& mesh);

}  // namespace plansearch::test
