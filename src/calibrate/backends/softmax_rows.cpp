// SPDX-License-Identifier: Apache-2.0
#include "calibrate/backends/softmax_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace plansearch::calibrate {

void softmax_rows(float* scores, int rows, int columns, int seen) {
  for (int row = 0; row < rows; ++row) {
    float* values = scores + static_cast<std::size_t>(row) * static_cast<std::size_t>(columns);
    const int own = std::min(columns, seen + row + 1);
    const float largest = *std::max_element(values, values + own);
    float sum = 0.0F;
    for (int i = 0; i < own; ++i) {
      values[i] = std::exp(values[i] - largest);
      sum += values[i];
    }
    const float scale = 1.0F / sum;
    for (int i = 0; i < own; ++i) values[i] *= scale;
    std::fill(values + own, values + columns, 0.0F);
  }
}

void softmax_slopes(float* change, const float* weight, const float* slope, const float* context,
                    const SlopeShape& shape) {
  const auto columns = static_cast<std::size_t>(shape.columns);
  const auto size = static_cast<std::size_t>(shape.size);
  for (std::size_t row = 0; row < static_cast<std::size_t>(shape.rows); ++row) {
    float own = 0.0F;
    for (std::size_t i = 0; i < size; ++i) own += slope[row * size + i] * context[row * size + i];
    for (std::size_t i = 0; i < columns; ++i) {
      const std::size_t at = row * columns + i;
      change[at] = weight[at] * (change[at] - own);
    }
  }
}

}  // namespace plansearch::calibrate
