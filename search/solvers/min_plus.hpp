// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace plansearch {

/// Square matrices by rows: result[a][c] = min over b of left[a][b] + right[b][c].
[[nodiscard]] std::vector<double> min_plus(const std::vector<double>& left,
                                           const std::vector<double>& right, std::size_t size);

}  // namespace plansearch
