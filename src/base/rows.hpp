// SPDX-License-Identifier: Apache-2.0
// Sums and choices over rows of numbers, with AVX2 where the machine has it.
#pragma once

#include <cstddef>

namespace plansearch {

/// sums[i] += more[i]
void add_row(double* sums, const double* more, std::size_t count);

/// least[i] = min(least[i], base + row[i])
void min_plus_row(double* least, const double* row, double base, std::size_t count);

/// The least row[i] + more[i]; infinite where there is none.
[[nodiscard]] double least_sum(const double* row, const double* more, std::size_t count);

}  // namespace plansearch
