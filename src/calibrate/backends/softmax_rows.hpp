// SPDX-License-Identifier: Apache-2.0
// The loops between the products of attention, compiled for speed whatever the build is for.
#pragma once

namespace plansearch::calibrate {

/// Rows of scores become weights that add up to one. Row i sees the first `seen` + i + 1 columns,
/// all of them where that is more; what it does not see has no weight.
void softmax_rows(float* scores, int rows, int columns, int seen);

struct SlopeShape {
  int rows;
  int columns;
  int size;
};
/// Gradients of weights become those of scores: weight (change - context . slope of the row).
void softmax_slopes(float* change, const float* weight, const float* slope, const float* context,
                    const SlopeShape& shape);

}  // namespace plansearch::calibrate
