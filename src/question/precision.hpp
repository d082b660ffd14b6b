// SPDX-License-Identifier: Apache-2.0
// The number format a job trains in.
#pragma once

#include <optional>

#include "plansearch/cluster.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/load_problem.hpp"
#include "question/chosen.hpp"

namespace plansearch {

/// The flag, the model's own, or the first of bf16, fp16, tf32 and fp32 that framework and
/// accelerator both have. InputError, naming what there is, when they lack what was asked for.
[[nodiscard]] Chosen<DataType> choose_precision(const ProblemRequest& request,
                                                const std::optional<DataType>& of_model,
                                                const Accelerator& accelerator,
                                                const Framework& framework);

}  // namespace plansearch
