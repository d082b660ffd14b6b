// SPDX-License-Identifier: Apache-2.0
// All that the wing `evidence` shows to others: statistics, and predictions for tables of runs and kernels.
#pragma once

#include "evidence/validate/kernel_validation.hpp"
#include "evidence/validate/run_prediction.hpp"
#include "evidence/validate/site_fit.hpp"
