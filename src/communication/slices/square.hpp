// SPDX-License-Identifier: Apache-2.0
// The temporal primitive P(s x s): a linear operator O[M,K] = I[M,N] W[N,K] on a square of devices,
// in s steps, without a collective and without a replica.
#pragma once

#include <array>

#include "communication/slices/slice_map.hpp"
#include "plansearch/placements.hpp"

namespace plansearch {

/// Digits that one phase adds to the slices of the three dimensions.
struct SquareDigits {
  SliceDigit m;
  SliceDigit n;
  SliceDigit k;
};

/// The digits of a square whose rows are numbered over the factors `rows` and whose columns are
/// numbered over `columns`, both outermost first and of equal product, by OperatorPhase. `period`:
/// the steps of squares nested inside, during which it stands still.
[[nodiscard]] std::array<SquareDigits, kOperatorPhaseCount> square_digits(const DeviceMesh& mesh,
                                                                          const FactorList& rows,
                                                                          const FactorList& columns,
                                                                          int period = 1);

/// Tiles in turn over a ring of devices, the own one first or last.
[[nodiscard]] SliceDigit ring_digit(const DeviceMesh& mesh, const FactorList& factors,
                                    bool own_first);

/// Product of the sizes of factors.
[[nodiscard]] int pieces_of(const DeviceMesh& mesh, const FactorList& factors);

}  // namespace plansearch
