// SPDX-License-Identifier: Apache-2.0
// Sums and choices over rows of numbers, with AVX2 where the machine has it.
#pragma once

#include <cstddef>

namespace plansearch {

/// sums[i] += more[i]
void add_row(double* sums, const double* more, std::size_t count);

/// least[i] = min(least[i], base + row[i])
void min_plus_row(double* least, const double* row, double base, std::size_t count);

/// values[i] = others[i] where other_lengths[i] < lengths[i]
void take_nearer(double* values, const double* others, const double* lengths,
                 const double* other_lengths, std::size_t count);

/// least[i] = min(least[i], others[i])
void take_less(double* least, const double* others, std::size_t count);

}  // namespace plansearch
