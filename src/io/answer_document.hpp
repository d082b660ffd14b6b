// SPDX-License-Identifier: Apache-2.0
// Plans of earlier answers (plansearch/result/v1), read as strictly as plan files.
#pragma once

#include <cstddef>

#include "io/document.hpp"
#include "io/plan_document.hpp"

namespace plansearch::io {

/// The plan that stands at this rank, from 1, and the question it answers: settings that were
/// chosen then, and what the question came to. InputError for ranks the answer does not have, for
/// keys and values that no answer has, and for parts of it that contradict each other.
[[nodiscard]] PlanDocument read_ranked_plan(const Node& answer, std::size_t rank);

}  // namespace plansearch::io
