// SPDX-License-Identifier: Apache-2.0
// Fitted speed of the kernels of one accelerator. Physical constants, never machine names in code.
#pragma once

#include <array>
#include <optional>

#include "plansearch/base/data_type.hpp"
#include "plansearch/base/quantity.hpp"

namespace plansearch {

struct KernelCurves {};

}  // namespace plansearch
