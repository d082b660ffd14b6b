// SPDX-License-Identifier: Apache-2.0
// The pipeline of a plan as a strip of text per stage.
#pragma once

#include <string>

#include "plansearch/framework.hpp"
#include "plansearch/plan_report.hpp"

namespace plansearch {

/// The plan's own order, stages and times, messages included, for its first micro-batches as if
/// there were no more:
///
///   stage 0 | 000111222333............aaaaaa444bbbbbb555cccccc
///
/// Digits are forwards (micro-batch modulo 10), letters backwards (a: micro-batch 0, 10, ...), '='
/// weight gradients that run apart, '.' waiting. At most 100 columns and 16 rows; stages that are
/// left out are said. Empty without a pipeline.
[[nodiscard]] std::string pipeline_picture(const PlanReport& plan, const Framework& framework);

}  // namespace plansearch
