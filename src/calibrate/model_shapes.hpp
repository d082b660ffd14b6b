// SPDX-License-Identifier: Apache-2.0
// The matrix products of models, for probes.
#pragma once

#include <string>
#include <vector>

#include "cost/kernels/kernel_shape.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch::calibrate {

/// Forward products of one sequence, whole and cut over 2, 4 and 8 ranks of a tensor group, each
/// shape once. InputError for unknown models.
[[nodiscard]] std::vector<MatmulShape> model_shapes(const std::vector<std::string>& models,
                                                    const ShippedData& data);

}  // namespace plansearch::calibrate
